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

    lock_testkit::conformance_tests!(ZooKeeper(three_members().await.url()); protocol);
}
