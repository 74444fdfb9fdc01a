//! Clients that ask for one etcd lock at once end each other's endless waits.

use futures_util::future::join_all;
use leasehold::{LockRequest, Wait, connect};
use lock_testkit::EtcdServer;

use crate::verdict::Verdict;

pub(crate) async fn run(size: usize) -> Verdict {
    let server = EtcdServer::start().await;
    let connected = (0..size).map(async |_| connect(&server.url()).await.expect("a connection"));
    let clients = join_all(connected).await;
    let waits = clients.iter().map(async |client| {
        let guard = client.acquire(LockRequest::new("hot").wait(Wait::Forever)).await?;
        guard.release().await
    });
    let failed: Vec<_> = join_all(waits).await.into_iter().filter_map(Result::err).collect();
    let first = failed.first().map(|error| format!(", the first by: {error}")).unwrap_or_default();
    let seen = format!("{} of {size} endless waits fail{first}", failed.len());
    Verdict::of("each client is served, since the server answers", seen, failed.is_empty())
}
