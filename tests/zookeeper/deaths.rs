//! Deaths of clients with many nodes: the end of a session is one transaction of all its paths.

use std::time::Duration;

use futures_util::future::join_all;
use leasehold::core::backend::Attempt;
use leasehold::core::{LockName, OwnerId};
use leasehold::zookeeper::ZooKeeperBackend;
use leasehold::{DistributedLock as _, LockRequest, connect};
use lock_testkit::{ZooKeeperServer, eventually};
use tokio::runtime::Runtime;
use tokio::task::spawn_blocking;

use crate::support::{LIMIT, released};

/// Longest session, also of marks: it ends soon after the client.
const SETTINGS: &[&str] = &["maxSessionTimeout=8000"];

/// TTL of that session.
const TTL: Duration = Duration::from_secs(6);

/// Length of the root. Long paths make few claims enough.
const ROOT: usize = 20_000;

/// Number of claims, and of withdrawn ones. The paths of either are longer together than the longest transaction that
/// servers read, which is 2 MB.
const CLAIMS: usize = 120;
const WITHDRAWN: usize = 120;

/// Number of requests at once. A busy server answers more of these long requests too late.
const AT_ONCE: usize = 10;

/// Acquires locks, and withdraws other claims.
async fn leaves_many_nodes(url: String) -> ZooKeeperBackend {
    let backend = ZooKeeperBackend::connect(&url).await.expect("a connection");
    let request = |number: usize| LockRequest::new(number.to_string()).ttl(TTL);
    let claims = (0..CLAIMS).map(|number| request(number).claim().expect("a good claim"));
    for claims in claims.collect::<Vec<_>>().chunks(AT_ONCE) {
        join_all(claims.iter().map(async |claim| {
            let is_held =
                async || matches!(backend.acquire(claim, None).await, Ok(Attempt::Granted(_)));
            eventually("it is held", LIMIT, is_held).await;
        }))
        .await;
    }
    let name = LockName::new("a").expect("a name");
    let owners: Vec<_> = (0..WITHDRAWN).map(|_| OwnerId::random()).collect();
    for owners in owners.chunks(AT_ONCE) {
        let is_withdrawn = async || backend.withdraw(&name, owners).await.is_ok();
        eventually("they are withdrawn", LIMIT, is_withdrawn).await;
    }
    backend
}

/// C28: locks whose holder died are free after its sessions, however many they are, also on servers that start anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_servers_outlive_a_client_that_died_with_many_claims() {
    let mut server = ZooKeeperServer::start_with(SETTINGS).await;
    let url = format!("{}{}", server.url(), "r".repeat(ROOT));
    let at = url.clone();
    let dies = spawn_blocking(|| {
        let runtime = Runtime::new().expect("a runtime");
        let dead = runtime.block_on(leaves_many_nodes(at));
        (runtime, dead)
    });
    let (runtime, dead) = dies.await.expect("no panic");
    runtime.shutdown_background();
    eventually("the sessions of the dead client end", LIMIT, async || {
        let state = server.ask("mntr").await.unwrap_or_default();
        state.lines().any(|line| line.split_whitespace().eq(["zk_ephemerals_count", "0"]))
    })
    .await;
    drop(dead);
    server.restart().await;
    let next = connect(&url).await.expect("the server serves again");
    let request = LockRequest::new("0").ttl(TTL);
    released(next.acquire(request).await.expect("nobody holds it")).await;
}
