//! Tests of locks on a majority of several Redis servers: the contract, and properties of a quorum.

#![allow(clippy::expect_used, clippy::panic)]

/// Makes two tests of a check that takes its own [`Set`](set::Set).
macro_rules! on_three_and_five {
    ($name:ident: $check:ident) => {
        mod $name {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_three() {
                super::$check(crate::set::Set::of(3).await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_five() {
                super::$check(crate::set::Set::of(5).await).await;
            }
        }
    };
}

mod access;
mod endings;
mod failover;
mod faults;
mod formats;
#[path = "../redis_topologies/load.rs"]
mod load;
mod membership;
mod minority;
#[path = "../support/redis_idle.rs"]
mod redis_idle;
#[path = "../support/redis_renewals.rs"]
mod redis_renewals;
mod renewals;
mod repeats;
mod restarts;
mod sale;
mod set;
#[allow(dead_code, unused_imports, reason = "it is shared with the tests of other servers")]
#[path = "../support/mod.rs"]
mod support;
mod twins;

use std::sync::Arc;

use leasehold::core::backend::async_trait;
use leasehold::{DistributedLock, LockName};
use lock_testkit::child;
use lock_testkit::conformance::Harness;
use lock_testkit::conformance_tests;

use crate::set::Set;

struct Quorum(&'static Set);

#[async_trait]
impl Harness for Quorum {
    async fn connect(&self) -> Arc<dyn DistributedLock> {
        self.0.backend().await
    }

    async fn evict(&self, name: &LockName) {
        self.0.servers.iter().for_each(|server| drop(server.cli(&["DEL", name.as_str()])));
    }
}

mod three {
    use super::*;

    conformance_tests!(Quorum(Set::three().await));
}

mod five {
    use super::*;

    // Five servers differ from three only in the count of a majority.
    conformance_tests! {
        Quorum(Set::five().await);
        c10_a_later_grant_to_the_same_owner_is_another_hold
        c12_a_batch_is_answered_in_its_order
        c16_a_repeated_acquire_finds_its_own_grant
        c19_a_late_request_of_a_withdrawn_claim_is_refused
        c22_concurrent_grants_have_distinct_growing_tokens
        c27_a_release_lets_the_next_one_in
        every_history_agrees_with_the_model
        s3_of_many_that_try_at_once_one_is_granted
    }
}

#[test]
fn child_role() {
    child::run(async |role| match role.as_str() {
        "seller" => sale::sell().await,
        other => panic!("no such role: {other}"),
    });
}
