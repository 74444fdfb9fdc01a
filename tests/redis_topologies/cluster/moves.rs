//! Slots that move from one server to another while their locks are held and waited for.

use std::time::Duration;

use leasehold::redis::RedisBackend;
use leasehold::{DistributedLock, Fence, LockRequest};
use lock_testkit::{RedisCluster, eventually};
use tokio::sync::{Mutex, MutexGuard};

use super::{all_renewed, name_at, shared};
use crate::redis_watches::{holders, shows, unpolled};
use crate::support::{
    LIMIT, check_remembers_nothing, client, fresh_name, held, patient, queued, released, served,
    turn,
};

/// Lets one slot move at a time, on the cluster that all tests share.
static MOVES: Mutex<()> = Mutex::const_new(());

async fn cluster() -> (&'static RedisCluster, MutexGuard<'static, ()>) {
    (shared().await, MOVES.lock().await)
}

/// The key has moved before its slot: its former server answers `ASK`, and the other server requires `ASKING`.
/// Holds of that server are renewed together, with fixed and with moving slots.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c12_holds_are_renewed_while_their_slot_moves() {
    let (cluster, _moves) = cluster().await;
    let (client, name) = (client(&cluster.url()).await, name_at(cluster, 0));
    let mut guards = Vec::new();
    for name in [&name, &name_at(cluster, 0), &name_at(cluster, 0)] {
        let request = LockRequest::new(name).ttl(Duration::from_secs(9));
        guards.push(client.acquire(request).await.expect("a free lock"));
    }
    cluster.begin_move(&name, 1);
    all_renewed(&guards).await;
    cluster.move_keys(&name, 1);
    all_renewed(&guards).await;
    cluster.end_move(&name, 1).await;
    all_renewed(&guards).await;
    for guard in guards {
        released(guard).await;
    }
    assert!(client.admin().inspect(&name).await.expect("an answer").holder().is_none());
}

/// While the keys of a lock are on two servers, it is neither granted nor released; afterwards its waiters come
/// in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c27_waiters_outlive_the_move_of_a_slot() {
    let (cluster, _moves) = cluster().await;
    let url = cluster.url();
    let (holder, waiter) = (client(&url).await, client(&url).await);
    let name = name_at(cluster, 0);
    let before = turn(&holder, &name).await;
    let guard = held(&holder, &name).await;
    let waiting = queued(&waiter, &holder, patient(&name), &name).await;
    cluster.begin_move(&name, 2);
    cluster.move_keys(&name, 2);
    let releasing = tokio::spawn(guard.release());
    cluster.end_move(&name, 2).await;
    releasing.await.expect("no panic").expect("it was held to the end");
    let next = served(waiting).await;
    assert!(next.token() > before, "{} after {before}", next.token());
    released(next).await;
    assert_eq!(cluster.primary_of(&name), 2);
}

/// A release that hands over deletes keys and reads them again, which a server refuses midway if their slot
/// moves. So it is refused as a whole, and is sent again: nothing is lost, and no false grant is announced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c27_no_hand_over_is_left_half_done() {
    let (cluster, _moves) = cluster().await;
    let url = cluster.url();
    let (holder, waiter) = (client(&url).await, client(&url).await);
    let name = name_at(cluster, 1);
    let guard = held(&holder, &name).await;
    let waiting = queued(&waiter, &holder, patient(&name), &name).await;
    cluster.begin_move(&name, 0);
    let releasing = tokio::spawn(guard.release());
    let refused =
        || cluster.cli(&name, &["INFO", "errorstats"]).text().contains("errorstat_TRYAGAIN");
    eventually("it is refused while the slot moves", LIMIT, async || refused()).await;
    assert_eq!(
        cluster.cli(&name, &["EXISTS", &name]).integer(),
        1,
        "it is held, by one or the other"
    );
    cluster.move_keys(&name, 0);
    cluster.end_move(&name, 0).await;
    releasing.await.expect("no panic").expect("it was held to the end");
    released(served(waiting).await).await;
}

/// A client that knows only the former server of a slot follows to the new one, without a second try.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c18_one_attempt_finds_a_slot_that_moved() {
    let (cluster, _moves) = cluster().await;
    let (client, name) = (client(&cluster.url()).await, name_at(cluster, 1));
    turn(&client, &name).await;
    cluster.begin_move(&name, 0);
    cluster.move_keys(&name, 0);
    cluster.end_move(&name, 0).await;
    let guard = client.try_acquire(&name).await.expect("no error").expect("it is free");
    released(guard).await;
}

/// C44: the events of a lock come from the server that has its slot.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c44_a_watch_hears_at_the_new_server_of_a_slot() {
    let (cluster, _moves) = cluster().await;
    for server in cluster.servers() {
        server.cli(&["CONFIG", "SET", "notify-keyspace-events", "K$gxz"]);
    }
    let (client, name) = (client(&cluster.url()).await, name_at(cluster, 0));
    let mut watch = unpolled(&client, &name);
    shows(&mut watch, "a free lock", holders(0)).await;
    cluster.begin_move(&name, 1);
    cluster.move_keys(&name, 1);
    cluster.end_move(&name, 1).await;
    let guard = held(&client, &name).await;
    shows(&mut watch, "a grant", holders(1)).await;
    released(guard).await;
    shows(&mut watch, "a release", holders(0)).await;
}

/// C19: a hold from before the move of its slot is taken back from the new server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c19_a_claim_is_withdrawn_after_its_slot_moved() {
    let (cluster, _moves) = cluster().await;
    let (client, name) = (client(&cluster.url()).await, name_at(cluster, 1));
    let backend = RedisBackend::connect(&cluster.url()).await.expect("a connection");
    let claim = patient(&name).claim().expect("a good request");
    backend.acquire(&claim, None).await.expect("an answer");
    cluster.begin_move(&name, 2);
    cluster.move_keys(&name, 2);
    cluster.end_move(&name, 2).await;
    backend.withdraw(&claim.name, &[claim.owner]).await.expect("done");
    let marks = cluster.cli(&name, &["KEYS", &format!("{{{name}}}:withdrawn:*")]);
    assert_eq!(marks.array().len(), 1, "another link carried the claim: its request may come late");
    let late = backend.acquire(&claim, None).await;
    assert!(late.is_err(), "{late:?}");
    turn(&client, &name).await;
}

/// C24: a fence and its resource share a slot by their tag.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c24_a_fence_works_in_its_slot_and_names_what_is_in_another() {
    let cluster = shared().await;
    let backend = RedisBackend::connect(&cluster.url()).await.expect("a connection");
    let resource = fresh_name();
    check_remembers_nothing(&backend.fence(fresh_name())).await;
    let (fence, token) = (backend.fence(&resource), turn(&client(&cluster.url()).await, "x").await);
    fence.advance(token).await.expect("the only one");
    fence.set(token, &resource, 1).await.expect("the same slot");
    fence.set(token, &format!("{{{resource}}}:left"), 1).await.expect("the same slot");
    assert_eq!(fence.seen().await.expect("an answer"), Some(token));
    let elsewhere = fence.set(token, &fresh_name(), 1).await.expect_err("another slot");
    assert!(elsewhere.to_string().contains("{tag}"), "{elsewhere}");
}
