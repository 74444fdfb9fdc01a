//! Servers that tests share.

use std::time::Duration;

use lock_testkit::{ZooKeeperEnsemble, ZooKeeperServer};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

/// A TTL that a busy machine does not lose by chance: its session lasts a third longer.
pub(crate) const SHORT_TTL: Duration = Duration::from_millis(1_800);

/// Returns a server that nobody disturbs. It ends with the process, since nothing else ends it.
pub(crate) async fn one_member() -> &'static ZooKeeperServer {
    static SERVER: OnceCell<ZooKeeperServer> = OnceCell::const_new();
    SERVER.get_or_init(ZooKeeperServer::start).await
}

/// Returns an ensemble that nobody disturbs.
pub(crate) async fn three_members() -> &'static ZooKeeperEnsemble {
    static ENSEMBLE: OnceCell<ZooKeeperEnsemble> = OnceCell::const_new();
    ENSEMBLE.get_or_init(|| ZooKeeperServer::start_ensemble(3)).await
}

/// Returns an ensemble to disturb, one test at a time. Each test leaves all members running.
pub(crate) async fn disturbed() -> MutexGuard<'static, ZooKeeperEnsemble> {
    static ENSEMBLE: OnceCell<Mutex<ZooKeeperEnsemble>> = OnceCell::const_new();
    let started = async || Mutex::new(ZooKeeperServer::start_ensemble(3).await);
    ENSEMBLE.get_or_init(started).await.lock().await
}
