//! Locks on a majority of several Redis servers keep the contract; and what only they have.

#![allow(clippy::expect_used, clippy::panic)]

mod membership;
mod minority;
mod repeats;
mod sale;
mod set;
#[allow(dead_code, unused_imports, reason = "it is shared with the tests of other servers")]
#[path = "../support/mod.rs"]
mod support;

use std::sync::Arc;

use leasehold::core::backend::async_trait;
use leasehold::{DistributedLock, LockName};
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

    conformance_tests!(Quorum(Set::shared().await));
}
