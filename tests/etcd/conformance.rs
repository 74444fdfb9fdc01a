//! The whole contract on a server of one member, and what passes between members on a cluster of three.

use std::sync::Arc;
use std::time::Duration;

use leasehold::core::backend::async_trait;
use leasehold::{DistributedLock, LockName};
use lock_testkit::EtcdServer;
use lock_testkit::conformance::Harness;

use crate::servers::{SHORTEST_TTL, delete_holder};
use crate::support::connected;

struct Etcd {
    url: String,
    operated: &'static EtcdServer,
}

#[async_trait]
impl Harness for Etcd {
    async fn connect(&self) -> Arc<dyn DistributedLock> {
        connected(&self.url).await
    }

    async fn evict(&self, name: &LockName) {
        delete_holder(self.operated, name.as_str());
    }

    fn ttl(&self) -> Duration {
        SHORTEST_TTL
    }
}

mod one_member {
    use super::Etcd;
    use crate::servers::one_member;

    async fn harness() -> Etcd {
        let operated = one_member().await;
        Etcd { url: operated.url(), operated }
    }

    lock_testkit::conformance_tests!(harness().await);
}

mod three_members {
    use super::Etcd;
    use crate::servers::three_members;

    async fn harness() -> Etcd {
        let cluster = three_members().await;
        Etcd { url: cluster.url(), operated: &cluster.members()[0] }
    }

    // The members forward the same requests.
    lock_testkit::conformance_tests! {
        harness().await;
        c04_a_grant_lasts_for_all_of_its_ttl
        c08_the_signal_is_sticky_and_tells_the_reason
        c12_a_batch_is_answered_in_its_order
        c16_a_repeated_acquire_finds_its_own_grant
        c19_a_late_request_of_a_withdrawn_claim_is_refused
        c21_no_reply_goes_to_the_wrong_caller
        c22_concurrent_grants_have_distinct_growing_tokens
        c22_tokens_grow_from_task_to_task_and_from_client_to_client
        c22_tokens_grow_through_release_expiry_and_eviction
        c27_a_release_lets_the_next_one_in
        c27_first_come_first_served
        c28_a_waiter_is_queued_by_its_first_attempt
        c28_a_waiter_that_left_costs_nothing
        c34_nobody_passes_those_who_wait
        c39_tries_for_several_are_never_all_refused
        c42_a_holder_that_lost_the_lock_cannot_record
        c44_a_watch_shows_grants_releases_and_evictions
        every_history_agrees_with_the_model
        s3_of_many_that_try_at_once_one_is_granted
    }
}
