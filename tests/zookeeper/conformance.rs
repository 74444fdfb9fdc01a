//! The whole contract on a server of one member, and the store's part of it on an ensemble of three.

use std::sync::Arc;
use std::time::Duration;

use leasehold::core::backend::async_trait;
use leasehold::core::{LockAdmin, Whom};
use leasehold::zookeeper::ZooKeeperBackend;
use leasehold::{DistributedLock, LockName};
use lock_testkit::conformance::Harness;

use crate::servers::{SHORT_TTL, one_member, three_members};
use crate::support::connected;

struct ZooKeeper(String);

#[async_trait]
impl Harness for ZooKeeper {
    async fn connect(&self) -> Arc<dyn DistributedLock> {
        connected(&self.0).await
    }

    async fn evict(&self, name: &LockName) {
        let operator = ZooKeeperBackend::connect(&self.0).await.expect("a connection");
        operator.evict(name, &Whom::All).await.expect("an answer");
    }

    fn ttl(&self) -> Duration {
        SHORT_TTL
    }

    fn tells_changes(&self) -> bool {
        false
    }
}

mod one_member {
    use super::{ZooKeeper, one_member};

    lock_testkit::conformance_tests!(ZooKeeper(one_member().await.url()));
}

mod three_members {
    use super::{ZooKeeper, three_members};

    // The members forward writes, and answer reads themselves.
    lock_testkit::conformance_tests! {
        ZooKeeper(three_members().await.url());
        c02_a_listing_takes_prefixes_as_data
        c04_a_grant_lasts_for_all_of_its_ttl
        c08_the_signal_is_sticky_and_tells_the_reason
        c12_a_batch_is_answered_in_its_order
        c16_a_repeated_acquire_finds_its_own_grant
        c19_a_late_request_of_a_withdrawn_claim_is_refused
        c21_no_reply_goes_to_the_wrong_caller
        c22_concurrent_grants_have_distinct_growing_tokens
        c22_tokens_grow_from_task_to_task_and_from_client_to_client
        c22_tokens_grow_through_release_expiry_and_eviction
        c26_a_reservation_yields_to_those_that_wait
        c27_a_release_lets_the_next_one_in
        c27_first_come_first_served
        c28_a_dead_holder_costs_no_more_than_its_ttl
        c28_a_waiter_is_queued_by_its_first_attempt
        c28_a_waiter_that_left_costs_nothing
        c33_no_more_holds_than_permits
        c34_a_release_lets_in_all_that_fit
        c34_nobody_passes_those_who_wait
        c36_a_permit_is_a_slot
        c38_an_eviction_ends_one_hold_or_all
        c38_an_inspection_lists_all_holders
        c39_tries_for_several_are_never_all_refused
        c40_all_observers_see_the_last_leader
        c41_a_run_that_is_handed_on_keeps_others_out
        c42_a_holder_that_lost_the_lock_cannot_record
        c42_a_run_that_ended_well_is_done
        c44_a_watch_shows_grants_releases_and_evictions
        every_history_agrees_with_the_model
        s3_of_many_that_try_at_once_one_is_granted
    }
}
