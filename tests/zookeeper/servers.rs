//! A server that tests share which disturb only their own names.

use std::time::Duration;

use lock_testkit::ZooKeeperServer;
use tokio::sync::OnceCell;

/// A TTL that a busy machine does not lose by chance: its session lasts for a third longer.
pub(crate) const SHORT_TTL: Duration = Duration::from_millis(1_800);

/// A server that nobody disturbs. It ends with the process, which is all that tethers it.
pub(crate) async fn one_member() -> &'static ZooKeeperServer {
    static SERVER: OnceCell<ZooKeeperServer> = OnceCell::const_new();
    SERVER.get_or_init(ZooKeeperServer::start).await
}
