//! A killed waiter keeps tries out of a free lock.

use std::env;
use std::future::pending;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use leasehold::{LockRequest, Wait, connect};
use lock_testkit::process::Tethered;
use lock_testkit::{EtcdServer, ZooKeeperServer, eventually};
use tokio::time::sleep;

use crate::verdict::Verdict;

/// A waiter that dies costs the others this long at most (C28).
const BOUND: Duration = Duration::from_secs(3);

pub(crate) async fn run() -> Verdict {
    let etcd = EtcdServer::start().await;
    // The usual sessions.
    let settings = ["tickTime=2000", "minSessionTimeout=4000", "maxSessionTimeout=40000"];
    let zookeeper = ZooKeeperServer::start_with(&settings).await;
    let took = [took(&etcd.url()).await, took(&zookeeper.url()).await];
    let is_right = took.iter().all(|took| *took <= BOUND);
    let seen = format!("etcd {:.1?}, ZooKeeper {:.1?}", took[0], took[1]);
    Verdict::of("a client that tries gets the free lock within 3 s", seen, is_right)
}

/// Returns the time from the release to the first try that gets the lock.
async fn took(url: &str) -> Duration {
    let [holder, other] = [connect(url).await, connect(url).await];
    let (holder, other) = (holder.expect("a connection"), other.expect("a connection"));
    let guard = holder.acquire("a").await.expect("a free lock");
    let (program, folder) = (env::current_exe(), tempfile::tempdir().expect("a folder"));
    let program = program.expect("this program has a path").display().to_string();
    let role = ["wait", url, "a"].map(str::to_owned);
    let waiter = Tethered::start(&program, &role, &folder.path().join("log"));
    eventually("it waits", Duration::from_secs(30), async || {
        holder.admin().inspect("a").await.is_ok_and(|state| state.waiters == Some(1))
    })
    .await;
    drop(waiter);
    guard.release().await.expect("held to the end");
    let released = Instant::now();
    while !matches!(other.try_acquire("a").await, Ok(Some(_))) {
        sleep(Duration::from_millis(100)).await;
    }
    released.elapsed()
}

/// Waits until it is killed.
pub(crate) async fn wait(url: &str, name: &str) -> ExitCode {
    let client = connect(url).await.expect("a connection");
    let _guard = client.acquire(LockRequest::new(name).wait(Wait::Forever)).await;
    pending().await
}
