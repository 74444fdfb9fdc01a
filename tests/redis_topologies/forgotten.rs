//! Grants that a failover forgot.

use std::time::Duration;

use leasehold::{FencingToken, LockClient, LockRequest, LostReason};
use lock_testkit::RedisServer;
use tokio::time::timeout;

use crate::support::{LIMIT, turn};

/// Waits until `replicas` replicas of the server have its writes for the lock `name`.
pub(crate) fn replicated(server: &RedisServer, name: &str, replicas: i64) {
    let mut session = server.session();
    session.call(&["SET", &format!("{{{name}}}:written"), "", "PX", "1"]);
    let count = session.call(&["WAIT", &replicas.to_string(), "4000"]).integer();
    assert!(count >= replicas, "{count} replicas have it");
}

/// Makes the replicas forget everything since the token `known`: the holder is told at its next renewal, and the
/// next token is greater than the forgotten one (C22).
pub(crate) async fn what_is_forgotten_is_told(
    client: &LockClient,
    name: &str,
    known: FencingToken,
    fail_over: impl Future<Output = ()>,
) {
    for _ in 0..5 {
        turn(client, name).await;
    }
    let request = LockRequest::new(name).ttl(Duration::from_secs(25));
    let guard = client.acquire(request).await.expect("it is free");
    let forgotten = guard.token();
    fail_over.await;
    let next = turn(client, name).await;
    assert!(known < forgotten && forgotten < next, "{known} {forgotten} {next}");
    assert_eq!(timeout(LIMIT, guard.lost()).await.expect("it is told"), LostReason::Evicted);
}
