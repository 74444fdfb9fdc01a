//! Histories of processes under random faults, which the checker judges.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{DistributedLock, LockError};
use lock_testkit::chaos::{Fault, Plan, SERVER_FAULTS, Store, run, strike_server};
use lock_testkit::faults::Server;
use memcached_backend::MemcachedBackend;

use crate::server::{Memcached, url_at};

pub(crate) struct Histories(Memcached);

impl Store for Histories {
    const NAME: &str = "memcached";

    /// The server counts whole seconds, and its time may be two seconds old.
    const OUTLASTS: Duration = Duration::from_secs(3);

    async fn start(_folder: &Path) -> Self {
        Self(Memcached::start(&[]).await)
    }

    fn address(&self) -> Option<SocketAddr> {
        Some(self.0.addr())
    }

    fn url(&self, network: Option<SocketAddr>) -> String {
        url_at(network.unwrap_or(self.0.addr()))
    }

    /// A cache that was restarted has forgotten its holds.
    fn faults(&self) -> Vec<Fault> {
        let [stopped, slow, killed] = SERVER_FAULTS;
        vec![stopped, slow, killed.that_loses()]
    }

    async fn strike(&mut self, fault: &str, span: Duration) {
        strike_server(&mut self.0, fault, span).await;
    }

    async fn connect(url: &str) -> Result<Arc<dyn DistributedLock>, LockError> {
        Ok(Arc::new(MemcachedBackend::connect(url).await?))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p1_histories_under_faults_keep_the_contract() {
    run::<Histories>(&Plan::of_environment()).await.demand_none();
}
