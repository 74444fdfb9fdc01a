//! An exclusive claim on ZooKeeper takes its token from its creation, though others were granted in between.
//!
//! ```text
//!   ours    looks: free ········ creates, as held ··························· reads: first ▶ token of the creation
//!   holder          acquires ····················· releases
//!   waiter                  waits ·························· holds, releases
//! ```

use std::time::Duration;

use leasehold::core::backend::Attempt;
use leasehold::{LockClient, LockRequest, backend, connect};
use lock_testkit::{ZooKeeperServer, eventually};

use crate::relay::{CHILDREN, MULTI, Relay};
use crate::verdict::{Verdict, turn};

pub(crate) async fn run() -> Verdict {
    let server = ZooKeeperServer::start().await;
    let relay = Relay::start(server.addr()).await;
    let ours = backend(&relay.url()).await.expect("a connection");
    let [holder, waiter] = [connect(&server.url()).await, connect(&server.url()).await];
    let (holder, waiter) = (holder.expect("a connection"), waiter.expect("a connection"));
    // While somebody holds a lock, nobody replaces the floor of tokens, which all know after a turn.
    let kept = holder.acquire("kept").await.expect("a free lock");
    turn(&waiter, "another").await;
    turn(&LockClient::new(ours.clone()), "another").await;
    relay.hold(MULTI);
    let claim = LockRequest::new("a").claim().expect("a good claim");
    let acquiring = tokio::spawn(async move { ours.acquire(&claim, None).await });
    relay.until_holding().await;
    let guard = holder.acquire("a").await.expect("a free lock");
    let waiting = tokio::spawn(async move { waiter.acquire("a").await });
    let until_waiting = async |count| {
        eventually("they wait", Duration::from_secs(30), async || {
            holder.admin().inspect("a").await.is_ok_and(|state| state.waiters == Some(count))
        })
        .await;
    };
    until_waiting(1).await;
    relay.hold(CHILDREN);
    until_waiting(2).await;
    guard.release().await.expect("held to the end");
    let guard = waiting.await.expect("no panic").expect("its turn comes");
    let earlier = guard.token().get();
    guard.release().await.expect("held to the end");
    relay.hold(&[]);
    kept.release().await.expect("held to the end");
    let right = "the later grant has the greater token";
    match acquiring.await.expect("no panic") {
        Ok(Attempt::Granted(grant)) => {
            let later = grant.token.get();
            let seen = format!("token {earlier}, and then {later}");
            Verdict::of(right, seen, later > earlier)
        }
        other => Verdict::of(right, format!("no grant: {other:?}"), true),
    }
}
