//! Access of a run to the store under test.

use std::future::ready;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{DistributedLock, LockError};
use tokio::time::{Instant, sleep};

use super::fault::{Fault, Place};
use super::register::{FileRegister, Register};
use crate::faults::Server;

/// Access of a run to the store under test, and its faults.
#[allow(async_fn_in_trait, reason = "a test awaits it in place, and needs no `Send`")]
pub trait Store: Sized + 'static {
    /// Name of the store in the report.
    const NAME: &str;

    /// The shortest TTL of the workers. They take two and three times as long ones too.
    const TTL: Duration = Duration::from_secs(1);

    /// For how long beyond its TTL a lock may stay held whose holder died.
    const OUTLASTS: Duration = Duration::ZERO;

    /// True if the workers are processes: not if the store is of one process.
    const IN_PROCESSES: bool = true;

    /// Starts a store of one's own, which may keep its data in `folder`.
    async fn start(folder: &Path) -> Self;

    /// The server that workers reach by a network that is disturbed; `None` if there is none, or none can be put
    /// between.
    fn address(&self) -> Option<SocketAddr> {
        None
    }

    /// Returns the URL for [`connect`](Self::connect), through the network at an address if there is one.
    fn url(&self, network: Option<SocketAddr>) -> String;

    /// Returns the faults of the store.
    fn faults(&self) -> Vec<Fault> {
        Vec::new()
    }

    /// Brings one of [`faults`](Self::faults) about, and mends it after `span`, if it lasts.
    async fn strike(&mut self, fault: &str, _span: Duration) {
        unreachable!("no such fault: {fault}");
    }

    /// Connects as a worker.
    fn connect(
        url: &str,
    ) -> impl Future<Output = Result<Arc<dyn DistributedLock>, LockError>> + Send;

    /// The resource that the lock called `name` protects.
    fn register(
        _url: &str,
        folder: &Path,
        name: &str,
    ) -> impl Future<Output = Result<Arc<dyn Register>, LockError>> + Send {
        let register: Arc<dyn Register> = Arc::new(FileRegister::open(folder, name));
        ready(Ok(register))
    }
}

/// Faults of any server that keeps its locks through a restart.
pub const SERVER_FAULTS: [Fault; 3] = [
    Fault::new(Place::Server, "server-stopped"),
    Fault::new(Place::Server, "server-slow"),
    Fault::new(Place::Server, "server-killed"),
];

/// Brings one of [`SERVER_FAULTS`] about, and mends it after `span`.
pub async fn strike_server(server: &mut impl Server, fault: &str, span: Duration) {
    match fault {
        "server-stopped" => {
            server.stop();
            sleep(span).await;
            server.cont();
        }
        "server-slow" => slow_down(server, span).await,
        "server-killed" => {
            server.kill();
            sleep(span).await;
            server.restart().await;
        }
        other => panic!("no such fault of a server: {other}"),
    }
}

/// Lets the server run for moments alone, as one that waits for a slow disk.
async fn slow_down(server: &impl Server, span: Duration) {
    let end = Instant::now() + span;
    while Instant::now() < end {
        server.stop();
        sleep(Duration::from_millis(40)).await;
        server.cont();
        sleep(Duration::from_millis(15)).await;
    }
}
