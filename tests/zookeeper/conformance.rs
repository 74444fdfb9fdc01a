//! The whole contract on a server of one member, and its core on an ensemble of three.

use std::sync::Arc;
use std::time::Duration;

use leasehold::core::backend::async_trait;
use leasehold::core::{LockAdmin, Whom};
use leasehold::zookeeper::ZooKeeperBackend;
use leasehold::{DistributedLock, LockName};
use lock_testkit::conformance::Harness;

use crate::servers::{SHORT_TTL, one_member, three_members};

struct ZooKeeper(String);

#[async_trait]
impl Harness for ZooKeeper {
    async fn connect(&self) -> Arc<dyn DistributedLock> {
        Arc::new(ZooKeeperBackend::connect(&self.0).await.expect("a connection"))
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

/// Cases that fail if a member that is behind is read.
mod three_members {
    use super::{ZooKeeper, three_members};

    lock_testkit::conformance_tests!(ZooKeeper(three_members().await.url());
        c10_a_later_grant_to_the_same_owner_is_another_hold
        c10_lost_is_final
        c12_renewals_go_in_batches
        c16_a_repeated_acquire_finds_its_own_grant
        c16_an_acquire_whose_reply_was_lost_is_granted
        c19_a_late_request_of_a_withdrawn_claim_is_refused
        c22_tokens_grow_through_release_expiry_and_eviction
        c22_concurrent_grants_have_distinct_growing_tokens
        c22_tokens_grow_from_task_to_task_and_from_client_to_client
        c27_first_come_first_served
        c28_a_dead_holder_costs_no_more_than_its_ttl
        c28_a_waiter_that_left_costs_nothing
        c28_an_eviction_lets_the_next_one_in
        s3_of_many_that_try_at_once_one_is_granted
        s5_nobody_but_the_owner_extends_or_ends_a_hold
        every_history_agrees_with_the_model
    );
}
