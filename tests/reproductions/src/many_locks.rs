//! A listing of many held locks on ZooKeeper takes longer than its limit.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use leasehold::{ClientOptions, LockClient, LockRequest, backend};
use lock_testkit::ZooKeeperServer;

use crate::verdict::Verdict;

/// Request time-out of an operator's client.
const LIMIT: Duration = Duration::from_secs(2);

/// Number of locks that are acquired at once.
const AT_ONCE: usize = 200;

pub(crate) async fn run(size: usize) -> Verdict {
    let server = ZooKeeperServer::start().await;
    let store = backend(&server.url()).await.expect("a connection");
    let holder = ClientOptions::new().request_timeout(Duration::from_secs(30));
    let holder = LockClient::with_options(store, holder);
    let (names, mut guards) = ((0..size).map(|number| format!("lock-{number}")), Vec::new());
    for names in names.collect::<Vec<_>>().chunks(AT_ONCE) {
        let request = |name| LockRequest::new(name).ttl(Duration::from_secs(600));
        let held = join_all(names.iter().map(|name| holder.acquire(request(name)))).await;
        guards.extend(held.into_iter().map(|guard| guard.expect("a free lock")));
    }
    let store = backend(&server.url()).await.expect("a connection");
    let operator = LockClient::with_options(store, ClientOptions::new().request_timeout(LIMIT));
    let asked = Instant::now();
    let listed = operator.admin().list("", size).await;
    let (took, is_right) = (asked.elapsed(), listed.as_ref().is_ok_and(|l| l.len() == size));
    let seen = match listed {
        Ok(listed) => format!("{} of {size} after {took:.1?}", listed.len()),
        Err(error) => format!("{error} after {took:.1?}"),
    };
    Verdict::of(format!("{size} held locks are listed within 2 s"), seen, is_right)
}
