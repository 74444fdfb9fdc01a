//! C44: a server with keyspace events notifies observers; beside any other server they poll.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{FutureExt, join_all};
use futures_util::stream::StreamExt;
use leasehold::LockName;
use leasehold::admin::LockState;
use leasehold::core::LockAdmin;
use leasehold::core::backend::Changes;
use leasehold::redis::RedisBackend;
use lock_testkit::{RedisServer, conformance, eventually};
use tokio::time::timeout;

use crate::Redis;
use crate::access::RIGHTS;
use crate::redis_watches::{holders, shows, unpolled};
use crate::support::{
    LIMIT, MINUTE, client, client_of, fresh_name, held, patient, queued, released, served,
};

/// Settings that the page of the backend recommends.
const EVENTS: [&str; 2] = ["--notify-keyspace-events", "K$gxz"];

async fn telling_server() -> RedisServer {
    RedisServer::start_with(&EVENTS).await
}

fn waiters(count: u64) -> impl Fn(&LockState) -> bool {
    move |state| state.waiters == Some(count)
}

/// Returns the next notification.
async fn told(changes: &mut Changes) -> Option<()> {
    timeout(LIMIT, changes.next()).await.expect("nothing is told")
}

/// Counts the connections of clients that subscribe to something.
fn hearing(server: &RedisServer) -> usize {
    server.cli(&["CLIENT", "LIST", "TYPE", "pubsub"]).text().lines().count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c44_what_is_told_is_shown_between_two_polls() {
    let server = Redis(telling_server().await);
    conformance::c44_what_is_told_is_shown_between_two_polls(&server).await;
    conformance::c44_a_watch_shows_the_end_of_a_ttl_and_no_renewal(&server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c44_all_that_changes_a_lock_is_told() {
    let server = telling_server().await;
    // In another database, and under a name that is encoded.
    let url = format!("{}1", server.url());
    let (client, another) = (client(&url).await, client(&url).await);
    let name = format!("{{{}}}:queue", fresh_name());
    let mut watch = unpolled(&client, &name);
    shows(&mut watch, "a free lock", holders(0)).await;
    let guard = held(&client, &name).await;
    shows(&mut watch, "a grant", holders(1)).await;
    let waiting = queued(&another, &client, patient(&name), &name).await;
    shows(&mut watch, "a waiter", waiters(1)).await;
    released(guard).await;
    let next = served(waiting).await;
    let is_next =
        |state: &LockState| state.holder().and_then(|one| one.token) == Some(next.token());
    shows(&mut watch, "a hand-off", is_next).await;
    released(next).await;
    shows(&mut watch, "a release", holders(0)).await;
    let beside = patient(&name).permits(1, 2);
    let one = client.acquire(beside.clone()).await.expect("a free lock");
    let other = client.acquire(beside).await.expect("it fits");
    shows(&mut watch, "two holders", holders(2)).await;
    released(one).await;
    shows(&mut watch, "one holder less", holders(1)).await;
    released(other).await;
    shows(&mut watch, "the last release", holders(0)).await;
    let short = patient(&name).ttl(Duration::from_secs(3));
    drop(client.acquire(short).await.expect("a free lock").detach());
    shows(&mut watch, "a grant that nobody renews", holders(1)).await;
    shows(&mut watch, "the end of a TTL", holders(0)).await;
}

/// C29: changes by clients in other languages count too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c44_foreign_clients_are_told_of() {
    let server = telling_server().await;
    let (client, name) = (client(&server.url()).await, fresh_name());
    let mut watch = unpolled(&client, &name);
    shows(&mut watch, "a free lock", holders(0)).await;
    server.cli(&["SET", &name, "theirs", "NX", "PX", "60000"]);
    shows(&mut watch, "a foreign holder", holders(1)).await;
    server.cli(&["DEL", &name]);
    shows(&mut watch, "its release", holders(0)).await;
}

/// C44: a renewal is not a change, and costs no look.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c44_a_renewal_is_not_told() {
    let server = telling_server().await;
    let backend = RedisBackend::connect(&server.url()).await.expect("a connection");
    let (client, one, other) = (client_of(Arc::new(backend.clone())), fresh(), fresh());
    let mut changes = [&one, &other].map(|name| backend.changes(name).expect("it tells"));
    join_all(changes.iter_mut().map(told)).await;
    let exclusive = patient(one.as_str());
    for request in [exclusive.clone(), exclusive.shared()] {
        let guard = client.acquire(request).await.expect("a free lock");
        // News of the first lock arrives before news of the other. A new connection is news as well.
        let marker = held(&client, other.as_str()).await;
        told(&mut changes[1]).await.expect("it tells");
        while changes[0].next().now_or_never().is_some() {}
        released(marker).await;
        told(&mut changes[1]).await.expect("it tells");
        guard.extend(MINUTE * 2).await.expect("it is held");
        let marker = held(&client, other.as_str()).await;
        told(&mut changes[1]).await.expect("it tells");
        assert_eq!(changes[0].next().now_or_never(), None, "a renewal was told");
        for (guard, changes) in [guard, marker].into_iter().zip(&mut changes) {
            released(guard).await;
            told(changes).await.expect("it tells");
        }
    }
}

fn fresh() -> LockName {
    LockName::new(fresh_name()).expect("a name")
}

/// C44: a lost connection is opened again. Changes in between are found.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c44_a_lost_connection_costs_no_change() {
    let server = telling_server().await;
    let (client, name) = (client(&server.url()).await, fresh_name());
    let mut watch = unpolled(&client, &name);
    shows(&mut watch, "a free lock", holders(0)).await;
    for _ in 0..2 {
        server.cli(&["SET", &name, "theirs"]);
        shows(&mut watch, "a grant", holders(1)).await;
        assert_eq!(server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]).integer(), 1);
        server.cli(&["DEL", &name]);
        shows(&mut watch, "a release of which it did not hear", holders(0)).await;
    }
}

/// C26, R1: watches and waits share a connection. Each subscription ends with the last watch of its lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r1_watches_share_one_connection_and_leave_no_subscription() {
    let server = telling_server().await;
    let backend = RedisBackend::connect(&server.url()).await.expect("a connection");
    let (client, name) = (client_of(Arc::new(backend.clone())), fresh());
    let holder = held(&client, "waited for").await;
    let waiting = queued(&client, &client, patient("waited for"), "waited for").await;
    let names = (0..50).map(|_| fresh()).chain([name.clone(), name.clone()]);
    let mut watches: Vec<Changes> =
        names.map(|name| backend.changes(&name).expect("it tells")).collect();
    join_all(watches.iter_mut().map(told)).await;
    assert_eq!(hearing(&server), 1, "connections that hear");
    let mut last = watches.pop().expect("there is one");
    drop(watches);
    let subscriptions = || server.cli(&["PUBSUB", "CHANNELS", "__keyspace*"]).array().len();
    eventually("one lock is watched", LIMIT, async || subscriptions() == 2).await;
    let guard = held(&client, name.as_str()).await;
    told(&mut last).await.expect("it tells");
    drop(last);
    eventually("no lock is watched", LIMIT, async || subscriptions() == 0).await;
    released(holder).await;
    released(served(waiting).await).await;
    released(guard).await;
}

/// The documented rights are enough for notifications. A user without them polls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c44_a_user_without_the_right_to_hear_polls() {
    let server = telling_server().await;
    let user = async |name: &str, more: &[&str]| {
        let rights =
            [&["ACL", "SETUSER", name, "on", "nopass", "resetchannels"], &RIGHTS[..], more];
        assert_eq!(server.cli(&rights.concat()).text(), "OK");
        let url = format!("redis://{name}:any@{}", server.addr());
        let backend = RedisBackend::connect(&url).await.expect("a connection");
        (client_of(Arc::new(backend.clone())), backend)
    };
    let (able, _) = user("able", &["+unsubscribe", "&__keyspace@*"]).await;
    let mut watch = unpolled(&able, "a");
    shows(&mut watch, "a free lock", holders(0)).await;
    let guard = held(&able, "a").await;
    shows(&mut watch, "a grant", holders(1)).await;
    drop(watch);
    released(guard).await;
    assert!(server.cli(&["ACL", "LOG"]).array().is_empty(), "the rights are not enough");

    let (deaf, backend) = user("deaf", &[]).await;
    let mut changes = backend.changes(&fresh()).expect("it asks");
    assert_eq!(told(&mut changes).await, None, "it is refused");
    let mut watch = deaf.admin().watch("a").poll_every(Duration::from_millis(50));
    shows(&mut watch, "a free lock", holders(0)).await;
    let guard = held(&deaf, "a").await;
    shows(&mut watch, "a grant", holders(1)).await;
    released(guard).await;
}
