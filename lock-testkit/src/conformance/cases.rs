//! The list of all cases.

use std::pin::Pin;

pub use super::cancellation::*;
pub use super::deadlines::*;
pub use super::elections::*;
pub use super::endings::*;
pub use super::exclusion::*;
use super::harness::Harness;
pub use super::holders::*;
pub use super::kinds::*;
pub use super::listing::*;
pub use super::model::*;
pub use super::names::*;
pub use super::numbers::*;
pub use super::once::*;
pub use super::operators::*;
pub use super::outcomes::*;
pub use super::ownership::*;
pub use super::passing::*;
pub use super::records::*;
pub use super::renewal::*;
pub use super::resources::*;
pub use super::several::*;
pub use super::tokens::*;
pub use super::ttls::*;
pub use super::waiting::*;
pub use super::watching::*;
pub use super::withdrawals::*;

/// Makes one test of each function of the suite, for the harness of the expression.
///
/// `conformance_tests!(Mine; c10_lost_is_final c21_no_reply_goes_to_the_wrong_caller)` makes the tests of the named
/// functions, for a second topology of a store that passes the whole suite.
#[macro_export]
macro_rules! conformance_tests {
    ($harness:expr) => {
        $crate::conformance_tests! { @all tests [$harness] }
    };
    ($harness:expr; $($case:ident)+) => {
        $crate::conformance_tests! { @tests [$harness] $($case)+ }
    };
    (@all $made:ident [$($harness:expr)?]) => {
        $crate::conformance_tests! { @$made [$($harness)?]
            c01_a_bad_request_is_refused_before_any_io
            c03_each_acquisition_has_an_owner_of_its_own
            c05_the_deadline_counts_from_before_the_request
            c05_a_grant_that_comes_too_late_is_not_returned
            c07_is_held_reads_the_clock
            c08_a_loss_that_is_seen_is_told
            c08_a_transient_error_is_no_loss
            c08_a_loss_names_its_cause
            c09_a_hung_renewal_does_not_delay_the_signal
            c10_a_lease_is_attached_once
            c11_not_held_from_the_start_of_the_release
            c11_no_renewal_brings_a_released_lock_back
            c12_a_slow_grant_is_renewed_in_time
            c12_renewing_survives_errors
            c12_one_refused_renewal_costs_no_other
            c13_max_hold_ends_renewing
            c13_run_drops_the_work_at_the_loss
            c13_run_renews_until_the_work_has_ended
            c14_a_wait_spent_in_line_times_out
            c14_a_refused_release_claims_nothing
            c15_an_error_tells_whether_it_was_applied
            c16_an_acquire_whose_reply_was_lost_is_granted
            c16_a_release_whose_reply_was_lost_is_released
            c17_every_call_returns_in_time
            c18_a_wait_of_zero_is_one_attempt
            c19_a_request_that_outlived_its_hold_takes_nothing
            c19_a_withdrawal_outlasts_a_short_ttl
            c19_a_lease_that_is_handed_on_stays_unresolved
            c19_a_jammed_lock_costs_no_other
            c20_a_guard_may_be_dropped_anywhere
            c20_shutdown_ends_acquisitions_under_way
            c20_shutdown_waits_for_no_acquisition_that_nobody_polls
            c20_shutdown_waits_for_a_release_under_way
            c39_names_are_taken_in_the_order_of_their_bytes
            c39_opposite_orders_never_deadlock
            c39_a_dropped_acquisition_of_several_leaves_nothing
            c39_the_loss_of_one_is_the_loss_of_all
            c40_an_observer_never_sees_a_smaller_term
            c40_a_candidate_outlasts_an_outage
            c40_a_holder_that_was_not_elected_leads_nobody
            c40_a_candidate_behind_one_that_gave_up_is_elected
            c41_a_loss_is_noticed_at_the_pace_of_the_ttl
            c41_a_bound_ends_a_run_within_its_span
            c41_of_those_that_start_at_once_one_runs
            c41_a_run_that_waits_is_done_or_runs_itself
            c41_a_run_that_waits_in_vain_is_skipped
            c42_a_server_that_is_back_in_time_records
            c42_a_silent_server_is_no_error_of_the_run
            c46_an_eviction_takes_the_fence_with_it
            c47_a_silent_server_is_no_error_of_the_work
            c48_a_wait_shorter_than_an_answer_times_out
            c49_a_prefix_is_a_part_of_each_name
            c02_names_are_data
            c02_a_listing_takes_prefixes_as_data
            c04_a_lease_says_what_was_granted
            c04_a_grant_lasts_for_all_of_its_ttl
            c04_a_hold_that_is_over_is_not_listed
            c08_the_signal_is_sticky_and_tells_the_reason
            c09_the_loss_is_told_without_the_renewers_runtime
            c10_lost_is_final
            c10_a_later_grant_to_the_same_owner_is_another_hold
            c10_extending_twice_at_once_is_safe
            c10_a_shorter_extension_keeps_the_hold
            c10_an_extension_for_proof_shortens_no_renewal
            c10_a_loss_ends_the_current_holder_alone
            c10_an_expired_hold_is_over
            c12_a_hold_is_renewed_past_its_ttl
            c12_renewals_go_in_batches
            c12_a_batch_is_answered_in_its_order
            c12_an_extension_lasts_for_all_of_its_ttl
            c14_busy_tells_what_is_known
            c14_a_bounded_wait_times_out
            c14_releasing_what_is_lost_is_not_held
            c16_a_repeated_acquire_finds_its_own_grant
            c16_a_repeated_acquire_lasts_for_all_of_its_ttl
            c16_a_repeat_for_another_ttl_lasts_as_it_says
            c16_a_place_for_another_ttl_lasts_as_it_says
            c19_a_dropped_acquire_leaves_nothing
            c19_a_dropped_waiter_leaves_the_queue
            c19_a_late_request_of_a_withdrawn_claim_is_refused
            c19_a_withdrawal_is_remembered
            c20_shutdown_gives_everything_back
            c20_a_guard_that_outlives_its_runtime_is_given_back
            c21_no_reply_goes_to_the_wrong_caller
            c22_tokens_grow_through_release_expiry_and_eviction
            c22_extending_keeps_the_token
            c22_concurrent_grants_have_distinct_growing_tokens
            c22_reserved_tokens_are_nobody_elses
            c22_tokens_grow_from_task_to_task_and_from_client_to_client
            c24_an_evicted_holder_has_the_lesser_token
            c26_waiters_of_a_client_share_one_place
            c26_a_reservation_yields_to_those_that_wait
            c27_first_come_first_served
            c27_a_release_lets_the_next_one_in
            c28_a_dead_holder_costs_no_more_than_its_ttl
            c28_a_waiter_is_queued_by_its_first_attempt
            c28_a_waiter_that_left_costs_nothing
            c28_an_eviction_lets_the_next_one_in
            c30_capabilities_are_data
            c31_the_doctor_examines_the_server
            c32_no_text_shows_an_owner
            c32_no_error_shows_an_owner
            c33_a_hold_is_granted_if_it_fits
            c33_a_kind_that_a_backend_has_not_got_is_refused
            c33_another_number_of_permits_before_a_waiter_is_told
            c33_another_number_of_permits_gets_in_under_load
            c33_another_number_of_permits_is_a_conflict
            c33_no_more_holds_than_permits
            c34_a_release_lets_in_all_that_fit
            c34_nobody_passes_those_who_wait
            c35_each_grant_has_its_own_token
            c36_a_detached_hold_keeps_its_slots
            c36_a_permit_is_a_slot
            c38_a_withdrawal_ends_its_own_hold_alone
            c38_an_eviction_ends_one_hold_or_all
            c38_an_inspection_lists_all_holders
            c38_each_holder_stands_by_itself
            c39_several_locks_are_held_together
            c39_it_is_all_or_none
            c39_tries_for_several_are_never_all_refused
            c39_the_rest_is_taken_once_a_busy_lock_is_free
            c39_a_lost_reply_of_several_is_found_again
            c39_a_dropped_request_for_several_leaves_nothing
            c40_a_leader_that_resigns_hands_over_at_once
            c40_all_observers_see_the_last_leader
            c40_a_leader_stops_believing_a_margin_before_the_next
            c44_a_watch_shows_grants_releases_and_evictions
            c44_a_watch_shows_the_end_of_a_ttl_and_no_renewal
            c44_what_is_told_is_shown_between_two_polls
            c41_those_who_wait_are_served_after_the_span
            c41_a_dropped_run_keeps_others_out
            c41_a_run_that_died_keeps_others_out
            c41_a_grant_that_nobody_learned_of_costs_one_ttl
            c41_a_run_that_is_handed_on_keeps_others_out
            c41_a_run_that_is_handed_on_and_dies_keeps_others_out
            c42_a_run_that_ended_well_is_done
            c42_a_holder_that_lost_the_lock_cannot_record
            c42_a_record_ends
            c42_occurrences_are_data
            c42_a_run_that_is_forgotten_runs_again
            c45_a_holder_tells_since_when
            c46_an_eviction_of_one_takes_its_fence_with_it
            c46_an_eviction_fences_reserved_tokens
            c47_a_release_tells_of_a_loss
            r2_no_call_blocks_the_runtime
            r2_no_call_keeps_the_thread
            s3_of_many_that_try_at_once_one_is_granted
            s5_nobody_but_the_owner_extends_or_ends_a_hold
            every_history_agrees_with_the_model
            a_lease_is_detached_and_attached
        }
    };
    (@tests [$harness:expr] $($case:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let harness = $harness;
                $crate::conformance::$case(&harness).await
            }
        )*
    };
    // Makes the cases public. The compiler finds a case that is missing in the list, since nobody could use it.
    (@export [] $($case:ident)*) => {
        pub use self::cases::{$($case),*};
    };
    (@list [] $($case:ident)*) => {
        &[$(Case { name: stringify!($case), run: |harness| Box::pin($case(harness)) }),*]
    };
}

/// All cases of the suite, for a separate test runner.
pub const CASES: &[Case] = conformance_tests! { @all list [] };

/// A case of the suite.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    name: &'static str,
    run: Run,
}

type Run = for<'a> fn(&'a dyn Harness) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

impl Case {
    /// Returns the name of its function, which begins with the tested clause.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Runs the case, on a Tokio runtime with several threads.
    ///
    /// # Panics
    /// If the backend breaks the contract, with the expected behaviour.
    pub async fn run(&self, harness: &dyn Harness) {
        (self.run)(harness).await;
    }
}
