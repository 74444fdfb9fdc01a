//! Access of a run to the store under test.

use std::future::ready;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{DistributedLock, LockError};
use tokio::time::{Instant, sleep};

use super::fault::{CLOCK_FORWARD, Fault, Victim};
use super::register::{FileRegister, Register};
use crate::WallClock;
use crate::faults::Server;

/// Access of a run to the store under test, and its faults.
#[allow(async_fn_in_trait, reason = "a test awaits it in place, and needs no `Send`")]
pub trait Store: Sized + 'static {
    /// Name of the store in the report.
    const NAME: &str;

    /// The shortest TTL of the workers. They also use TTLs two and three times as long.
    const TTL: Duration = Duration::from_secs(1);

    /// Time beyond its TTL for which a dead holder's lock may stay held.
    const OUTLASTS: Duration = Duration::ZERO;

    /// True if the workers are separate processes: false for a store within one process.
    const IN_PROCESSES: bool = true;

    /// Starts a separate store, which may keep its data in `folder`.
    async fn start(folder: &Path) -> Self;

    /// Returns the address of the server, before which a proxy disturbs the network; `None` if there is no server, or
    /// no proxy can be put before it.
    fn address(&self) -> Option<SocketAddr> {
        None
    }

    /// Returns the URL for [`connect`](Self::connect), through the network at the address if there is one.
    fn url(&self, network: Option<SocketAddr>) -> String;

    /// Returns the faults of the store.
    fn faults(&self) -> Vec<Fault> {
        Vec::new()
    }

    /// Injects one of [`faults`](Self::faults), and ends it after `span` if it lasts.
    async fn strike(&mut self, fault: &str, _span: Duration) {
        unreachable!("no such fault: {fault}");
    }

    /// Ends lasting effects of faults that outlast a hold, such as those of a clock that was set back. No worker has a
    /// hold then.
    fn settle(&mut self) {}

    /// Returns the number of keys, rows or files in the store, whose growth a soak reports.
    async fn records(&self) -> u64 {
        0
    }

    /// Connects as a worker.
    fn connect(
        url: &str,
    ) -> impl Future<Output = Result<Arc<dyn DistributedLock>, LockError>> + Send;

    /// Returns the resource that the lock called `name` protects.
    fn register(
        _url: &str,
        folder: &Path,
        name: &str,
    ) -> impl Future<Output = Result<Arc<dyn Register>, LockError>> + Send {
        let register: Arc<dyn Register> = Arc::new(FileRegister::open(folder, name));
        ready(Ok(register))
    }
}

/// Faults of any server whose locks survive a restart.
pub const SERVER_FAULTS: [Fault; 3] = [
    Fault::new(Victim::Server, "server-stopped"),
    Fault::new(Victim::Server, "server-slow"),
    Fault::new(Victim::Server, "server-killed"),
];

/// Returns the steps of the wall clock of a server that ends holds by it: none if the server has no clock of its own.
/// A step back only makes holds last longer.
pub fn clock_faults(clock: Option<WallClock>) -> Vec<Fault> {
    let [back, forward] = ["clock-back", CLOCK_FORWARD].map(|of| Fault::new(Victim::Server, of));
    clock.map_or_else(Vec::new, |_| vec![back, forward.that_loses()])
}

/// Injects one of [`clock_faults`]: a step of milliseconds to a minute and a half, which grows with `span`. A step
/// forward makes up for all earlier steps back.
pub async fn strike_clock(clock: Option<WallClock>, fault: &str, span: Duration) {
    let clock = clock.expect("a server with its own clock");
    let step = span.mul_f64(10.0 * span.as_secs_f64());
    match fault {
        "clock-back" => clock.set_back(step),
        _ => clock.set_forward(step),
    }
    sleep(span).await;
}

/// Makes up for all steps back.
pub fn settle_clock(clock: Option<WallClock>) {
    if let Some(clock) = clock {
        clock.set_forward(Duration::ZERO);
    }
}

/// Injects one of [`SERVER_FAULTS`], and ends it after `span`.
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

/// Lets the server run only for short moments, as with a slow disk.
async fn slow_down(server: &impl Server, span: Duration) {
    let end = Instant::now() + span;
    while Instant::now() < end {
        server.stop();
        sleep(Duration::from_millis(40)).await;
        server.cont();
        sleep(Duration::from_millis(15)).await;
    }
}
