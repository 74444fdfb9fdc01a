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
mod failover;
mod faults;
mod formats;
#[path = "../redis_topologies/load.rs"]
mod load;
mod membership;
mod minority;
#[path = "../support/redis_renewals.rs"]
mod redis_renewals;
mod renewals;
mod repeats;
mod sale;
mod set;
#[allow(dead_code, unused_imports, reason = "it is shared with the tests of other servers")]
#[path = "../support/mod.rs"]
mod support;

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

    conformance_tests!(Quorum(Set::five().await));
}

#[test]
fn child_role() {
    child::run(async |role| match role.as_str() {
        "seller" => sale::sell().await,
        other => panic!("no such role: {other}"),
    });
}
