//! The whole contract, on a server of one member and on a cluster of three.

use std::sync::Arc;
use std::time::Duration;

use leasehold::core::backend::async_trait;
use leasehold::etcd::EtcdBackend;
use leasehold::{DistributedLock, LockName};
use lock_testkit::EtcdServer;
use lock_testkit::conformance::Harness;

use crate::servers::{SHORTEST_TTL, delete_holder};

struct Etcd {
    url: String,
    operated: &'static EtcdServer,
}

#[async_trait]
impl Harness for Etcd {
    async fn connect(&self) -> Arc<dyn DistributedLock> {
        Arc::new(EtcdBackend::connect(&self.url).await.expect("a connection"))
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

    lock_testkit::conformance_tests!(harness().await);
}
