//! Waiters: places that a pause leaves as they are, and what wakes a waiter.

use std::time::Duration;

use leasehold::core::backend::Attempt;
use leasehold::zookeeper::ZooKeeperBackend;
use leasehold::{DistributedLock, LockClient, LockRequest, Wait};
use lock_testkit::{Mode, Proxy, ZooKeeperServer, eventually};
use tokio::time::{sleep, timeout};
use zookeeper_client::Client;

use crate::faults::figure;
use crate::relay::{CHILDREN, MULTI, Relay};
use crate::servers::one_member;
use crate::support::{
    LIMIT, MINUTE, a_dead_waiter_keeps_tries_out_for_its_bound, acquiring, client, held, patient,
    queued, released, served, turn, until_waiting,
};

/// Returns the nodes of all claims on the lock `a`, in the order of their names.
async fn claims(operator: &Client) -> Vec<String> {
    let mut claims = operator.list_children("/leasehold/locks/a").await.expect("an answer");
    claims.sort();
    claims
}

/// C27: a server that stands still for less than the TTL costs no hold and no place, and keeps the order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c27_a_server_that_stands_still_keeps_holds_and_places() {
    let server = ZooKeeperServer::start().await;
    let holder = client(&server.url()).await;
    let mut guard = held(&holder, "a").await;
    let (mut clients, mut waiting) = (Vec::new(), Vec::new());
    for count in 1..=3 {
        let client = client(&server.url()).await;
        waiting.push(acquiring(&client, patient("a").wait(Wait::Forever)));
        clients.push(client);
        until_waiting(&holder, "a", count).await;
    }
    let operator = async || Client::connect(&server.addr().to_string()).await.expect("connected");
    let places = claims(&operator().await).await;
    server.stop();
    sleep(Duration::from_secs(5)).await;
    server.cont();
    assert_eq!(claims(&operator().await).await, places);
    // C28: a waiter whose client is still without a connection when its turn comes may lose its place.
    for client in [&holder].into_iter().chain(&clients) {
        turn(client, "b").await;
    }
    for waiting in waiting {
        let token = guard.token();
        released(guard).await;
        guard = served(waiting).await;
        assert!(guard.token() > token);
    }
    released(guard).await;
}

/// A waiter is not woken by a change of the claim before it, as when that claim becomes a hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_asks_nothing_when_the_claim_before_it_changes() {
    const CHANGES: u64 = 50;
    let server = ZooKeeperServer::start().await;
    // Without a client, so that nobody watches the hold for its loss.
    let backend = ZooKeeperBackend::connect(&server.url()).await.expect("a connection");
    let hold = patient("a").claim().expect("a good claim");
    backend.acquire(&hold, None).await.expect("an answer");
    let operator = Client::connect(&server.addr().to_string()).await.expect("a connection");
    let [node] = &claims(&operator).await[..] else { panic!("one claim") };
    let node = format!("/leasehold/locks/a/{node}");
    let (data, _) = operator.get_data(&node).await.expect("its data");
    let (observer, waiter) = (client(&server.url()).await, client(&server.url()).await);
    let waiting = queued(&waiter, &observer, patient("a"), "a").await;
    let received = async || figure(&server, "zk_packets_received").await;
    // Pings and looks count too, and a busy machine leaves time for many.
    eventually("the changes cost the waiter no request", LIMIT, async || {
        let before = received().await;
        for _ in 0..CHANGES {
            operator.set_data(&node, &data, None).await.expect("an answer");
        }
        received().await - before < CHANGES * 3 / 2
    })
    .await;
    backend.release(&hold.name, hold.owner).await.expect("an answer");
    released(served(waiting).await).await;
}

/// A waiter of any kind looks at the holder and at its own node, and not at a long queue, while an exclusive hold lasts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_reads_no_queue_behind_an_exclusive_hold() {
    let server = ZooKeeperServer::start().await;
    let relay = Relay::start(server.addr()).await;
    let holder = client(&server.url()).await;
    let guard = held(&holder, "a").await;
    for request in [patient("a"), patient("a").shared(), patient("a").permits(1, 3)] {
        let waiter = client(&relay.url()).await;
        let waiting = queued(&waiter, &holder, request.wait(Wait::Forever), "a").await;
        // Its first look reads the queue. It looks once a second.
        eventually("it reads no queue", LIMIT, async || {
            relay.hold(CHILDREN);
            let reads = timeout(Duration::from_millis(2_500), relay.until_holding()).await.is_ok();
            relay.hold(&[]);
            !reads
        })
        .await;
        waiting.abort();
        until_waiting(&holder, "a", 0).await;
    }
    released(guard).await;
}

/// S3: a hold is not taken for a waiter that misses its turn, however long others wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_a_hold_is_not_overtaken_by_those_who_wait_for_it() {
    let server = ZooKeeperServer::start().await;
    let (holder, waiter) = (client(&server.url()).await, client(&server.url()).await);
    let guard = held(&holder, "a").await;
    let waiting = queued(&waiter, &holder, patient("a"), "a").await;
    // A waiter looks once a second, and passes over another after two seconds.
    sleep(Duration::from_secs(6)).await;
    guard.extend(MINUTE).await.expect("still held");
    released(guard).await;
    released(served(waiting).await).await;
}

/// C22: tokens are in the order in which claims become holds, and not in that of their places.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_reader_that_takes_its_turn_late_has_the_greater_token() {
    let server = ZooKeeperServer::start().await;
    let proxy = Proxy::start(server.addr()).await;
    let (writer, quick, other) =
        (client(&server.url()).await, client(&server.url()).await, client(&server.url()).await);
    let slow = client(&format!("zookeeper://{}/", proxy.addr())).await;
    let written = held(&writer, "a").await;
    let late = acquiring(&slow, patient("a").shared());
    until_waiting(&writer, "a", 1).await;
    let soon = acquiring(&quick, patient("a").shared());
    until_waiting(&writer, "a", 2).await;
    let next = acquiring(&other, patient("a"));
    until_waiting(&writer, "a", 3).await;
    proxy.set_existing(Mode::Delay(Duration::from_millis(300)));
    released(written).await;
    let first = served(soon).await;
    let second = served(late).await;
    assert!(second.token() > first.token(), "{second:?} {first:?}");
    let last = second.token();
    released(first).await;
    released(second).await;
    let writer = served(next).await;
    assert!(writer.token() > last, "a writer that came before");
    released(writer).await;
}

/// C28: a dead waiter keeps tries out for its bound, also from one of several permits.
async fn a_dead_waiter_keeps_tries_out(permits: u16) {
    let server = one_member().await;
    let proxy = Proxy::start(server.addr()).await;
    let silent = client(&format!("zookeeper://{}/", proxy.addr())).await;
    a_dead_waiter_keeps_tries_out_for_its_bound(&server.url(), &silent, &proxy, permits).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_a_dead_waiter_keeps_tries_out_for_its_bound() {
    a_dead_waiter_keeps_tries_out(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_a_dead_waiter_keeps_tries_from_a_free_permit_for_its_bound() {
    a_dead_waiter_keeps_tries_out(3).await;
}

/// C22: an exclusive claim that looked at a free lock, and was created after others, has no token of that time.
///
/// ```text
///   ours    looks: free ········ creates, as held ··························· reads: first ▶ token of a later write
///   holder          acquires ····················· releases
///   waiter                  waits ·························· holds, releases
/// ```
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_claim_that_became_the_first_after_its_creation_has_a_greater_token() {
    let server = ZooKeeperServer::start().await;
    let relay = Relay::start(server.addr()).await;
    let ours = ZooKeeperBackend::connect(&relay.url()).await.expect("a connection");
    let [holder, waiter] = [client(&server.url()).await, client(&server.url()).await];
    // While somebody holds a lock, nobody replaces the floor of tokens, which all know after a turn.
    let kept = held(&holder, "kept").await;
    turn(&waiter, "another").await;
    turn(&LockClient::new(ours.clone()), "another").await;
    relay.hold(MULTI);
    let claim = LockRequest::new("a").claim().expect("a good claim");
    let claiming = tokio::spawn(async move { ours.acquire(&claim, None).await });
    relay.until_holding().await;
    let guard = held(&holder, "a").await;
    let waiting = acquiring(&waiter, patient("a"));
    until_waiting(&holder, "a", 1).await;
    relay.hold(CHILDREN);
    until_waiting(&holder, "a", 2).await;
    released(guard).await;
    let guard = served(waiting).await;
    let earlier = guard.token();
    released(guard).await;
    relay.hold(&[]);
    released(kept).await;
    let later = claiming.await.expect("no panic").expect("an answer");
    let Attempt::Granted(grant) = later else { panic!("{later:?}") };
    assert!(grant.token > earlier, "{} after {earlier}", grant.token);
}
