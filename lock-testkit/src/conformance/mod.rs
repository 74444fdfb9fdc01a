//! The conformance suite: one function per behaviour that the contract demands, for every backend.
//!
//! A backend's tests are its [`Harness`] and one line:
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use lock_testkit::conformance::Harness;
//! use lock_core::backend::async_trait;
//! use lock_core::{DistributedLock, LockAdmin, LockName, MemoryBackend};
//!
//! struct Memory(MemoryBackend);
//!
//! #[async_trait]
//! impl Harness for Memory {
//!     async fn connect(&self) -> Arc<dyn DistributedLock> {
//!         Arc::new(self.0.clone())
//!     }
//!
//!     async fn evict(&self, name: &LockName) {
//!         self.0.evict(name).await.expect("an answer");
//!     }
//! }
//!
//! lock_testkit::conformance_tests!(Memory(MemoryBackend::new()));
//! ```
//!
//! The line makes one `#[tokio::test]` of each function, named by the clause it tests (`tokio` with
//! `macros` and `rt-multi-thread` must be a dev-dependency). Each function may run beside the others
//! on one server; it uses names of its own. Faults are put between the policy of `lock-core` and the
//! backend by [`Faulty`], which anyone may use for tests of their own.
//!
//! # Panics
//! All functions panic where the backend breaks the contract.

mod cancellation;
mod deadlines;
mod endings;
mod model;
mod names;
mod operators;
mod outcomes;
mod renewal;
mod resources;
mod tokens;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{Instant, sleep};

use crate::{Fault, Faulty, Operation};
use lock_core::backend::Claim;
use lock_core::{
    ClientOptions, DistributedLock, LockClient, LockName, LockRequest, MAX_NAME_BYTES, OwnerId,
    Wait,
};

pub use self::cancellation::*;
pub use self::deadlines::*;
pub use self::endings::*;
pub use self::model::every_history_agrees_with_the_model;
pub use self::names::*;
pub use self::operators::*;
pub use self::outcomes::*;
pub use self::renewal::*;
pub use self::resources::*;
pub use self::tokens::*;
pub use self::waiting::*;

/// How the suite reaches the backend under test.
#[async_trait]
pub trait Harness: Send + Sync {
    /// Connects to the store anew, as another host would.
    async fn connect(&self) -> Arc<dyn DistributedLock>;

    /// Ends the hold of `name` behind everyone's back, as an operator would.
    async fn evict(&self, name: &LockName);

    /// The shortest TTL that the backend keeps to, and that a busy test machine does not lose by
    /// chance.
    fn ttl(&self) -> Duration {
        Duration::from_millis(600)
    }

    /// How many bytes the longest name has that the backend takes: fewer where each name is given a prefix.
    fn longest_name(&self) -> usize {
        MAX_NAME_BYTES
    }
}

/// What a loaded machine may add to a bound of the contract.
const SLACK: Duration = Duration::from_millis(250);

/// The request time-out of the clients under test.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

/// A bound for what has none of its own: far more than anything takes.
const LIMIT: Duration = Duration::from_secs(30);

/// A name that no other test uses.
fn fresh_name() -> LockName {
    LockName::new(format!("conformance-{}", OwnerId::random().expose())).expect("a good name")
}

fn options() -> ClientOptions {
    ClientOptions::new().request_timeout(REQUEST_TIMEOUT)
}

/// A client with a connection of its own.
async fn client(harness: &dyn Harness) -> LockClient {
    LockClient::with_options(harness.connect().await, options())
}

/// A client with a connection of its own, and the place to put faults into it.
async fn faulty_client(harness: &dyn Harness) -> (LockClient, Faulty) {
    let faulty = Faulty::new(harness.connect().await);
    (LockClient::with_options(faulty.clone(), options()), faulty)
}

/// A claim on `name` by a new owner.
fn claim(name: &LockName, ttl: Duration) -> Claim {
    LockRequest::from(name).ttl(ttl).claim().expect("a good claim")
}

/// A request for `name` that waits for as long as any test may take.
fn patient(name: &LockName, ttl: Duration) -> LockRequest {
    LockRequest::from(name).ttl(ttl).wait(Wait::AtMost(LIMIT))
}

/// Waits for a condition, and says which one did not come.
async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !holds().await {
        assert!(Instant::now() < end, "this did not come to pass: {what}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until nobody holds `name` or waits for it.
async fn until_free(observer: &LockClient, name: &LockName) {
    eventually("the lock is free and nobody waits", async || {
        let state = observer.inspect(name).await.expect("the server answers");
        state.holder.is_none() && state.waiters.unwrap_or(0) == 0
    })
    .await;
}

/// Makes one test of each function of the suite, for the harness that the expression yields.
#[macro_export]
macro_rules! conformance_tests {
    ($harness:expr) => {
        $crate::conformance_tests! { @each $harness;
            c01_a_bad_request_is_refused_before_any_io
            c02_names_are_data
            c02_a_listing_takes_prefixes_as_data
            c03_each_acquisition_has_an_owner_of_its_own
            c04_a_lease_says_what_was_granted
            c05_the_deadline_counts_from_before_the_request
            c05_a_grant_that_comes_too_late_is_not_returned
            c07_is_held_reads_the_clock
            c08_the_signal_is_sticky_and_tells_the_reason
            c08_a_loss_that_is_seen_is_told
            c08_a_transient_error_is_no_loss
            c09_a_hung_renewal_does_not_delay_the_signal
            c09_the_loss_is_told_without_the_renewers_runtime
            c10_lost_is_final
            c10_a_later_grant_to_the_same_owner_is_another_hold
            c10_extending_twice_at_once_is_safe
            c10_a_shorter_extension_keeps_the_hold
            c10_an_extension_for_proof_shortens_no_renewal
            c10_a_lease_is_attached_once
            c11_not_held_from_the_start_of_the_release
            c11_no_renewal_brings_a_released_lock_back
            c12_a_hold_is_renewed_past_its_ttl
            c12_a_slow_grant_is_renewed_in_time
            c12_renewals_go_in_batches
            c12_renewing_survives_errors
            c12_one_refused_renewal_costs_no_other
            c13_max_hold_ends_renewing
            c13_run_drops_the_work_at_the_loss
            c13_run_renews_until_the_work_has_ended
            c14_busy_tells_what_is_known
            c14_a_bounded_wait_times_out
            c14_a_wait_spent_in_line_times_out
            c14_releasing_what_is_lost_is_not_held
            c14_a_refused_release_claims_nothing
            c15_an_error_tells_whether_it_was_applied
            c16_a_repeated_acquire_finds_its_own_grant
            c16_an_acquire_whose_reply_was_lost_is_granted
            c16_a_release_whose_reply_was_lost_is_released
            c17_every_call_returns_in_time
            c18_a_wait_of_zero_is_one_attempt
            c19_a_dropped_acquire_leaves_nothing
            c19_a_dropped_waiter_leaves_the_queue
            c19_a_late_request_of_a_withdrawn_claim_is_refused
            c19_a_request_that_outlived_its_hold_takes_nothing
            c19_a_withdrawal_outlasts_a_short_ttl
            c19_a_lease_that_is_handed_on_stays_unresolved
            c19_a_jammed_lock_costs_no_other
            c20_a_guard_may_be_dropped_anywhere
            c20_shutdown_gives_everything_back
            c20_shutdown_ends_acquisitions_under_way
            c20_shutdown_waits_for_no_acquisition_that_nobody_polls
            c20_shutdown_waits_for_a_release_under_way
            c20_a_guard_that_outlives_its_runtime_is_given_back
            c21_no_reply_goes_to_the_wrong_caller
            c22_tokens_grow_through_release_expiry_and_eviction
            c22_extending_keeps_the_token
            c22_concurrent_grants_have_distinct_growing_tokens
            c24_an_evicted_holder_has_the_lesser_token
            c26_waiters_of_a_client_share_one_place
            c27_first_come_first_served
            c27_a_release_lets_the_next_one_in
            c28_a_dead_holder_costs_no_more_than_its_ttl
            c28_a_waiter_is_queued_by_its_first_attempt
            c28_a_waiter_that_left_costs_nothing
            c28_an_eviction_lets_the_next_one_in
            c30_capabilities_are_data
            c31_the_doctor_examines_the_server
            c32_no_text_shows_an_owner
            c45_a_holder_tells_since_when
            c46_an_eviction_takes_the_fence_with_it
            c47_a_release_tells_of_a_loss
            c47_a_silent_server_is_no_error_of_the_work
            c48_a_wait_shorter_than_an_answer_times_out
            c49_a_prefix_is_a_part_of_each_name
            r2_no_call_blocks_the_runtime
            every_history_agrees_with_the_model
            a_lease_is_detached_and_attached
            the_trait_acquires_without_a_client
        }
    };
    (@each $harness:expr; $($test:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                let harness = $harness;
                $crate::conformance::$test(&harness).await
            }
        )*
    };
}
