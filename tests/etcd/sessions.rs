//! Ends of sessions and their claims: each claim ends by itself even if its session goes on, and nothing is left
//! behind, whichever message was lost.

use leasehold::core::backend::DistributedLockExt;
use lock_testkit::LeaseExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt};
use leasehold::core::OwnerId;
use leasehold::core::backend::{Extension, Renewal};
use leasehold::etcd::EtcdBackend;
use leasehold::etcd::etcd_client::PutOptions;
use leasehold::{DistributedLock, Lease, LockRequest, LostReason, Ttl, Wait};
use lock_testkit::faults::Harness;
use lock_testkit::{EtcdServer, Mode, Proxy, eventually};
use tokio::time::{sleep, timeout};

use crate::faults::{followers_of, lease_of};
use crate::members::member_in_use;
use crate::servers::{EtcdFaults, claims, leases, one_member, only_marks_are_left, raw};
use crate::support::{
    LIMIT, MINUTE, SLACK, client, client_of, client_through, fresh_name, held, impatient, patient,
    queued, released, served,
};

const SECOND: Duration = Duration::from_secs(1);

/// Time for which a dead client's session outlasts the TTL of its holds; the server ends a lease up to a second
/// late.
const MARGIN: Duration = Duration::from_secs(3);

pub(crate) async fn backend(server: &EtcdServer) -> EtcdBackend {
    EtcdBackend::connect(&server.url()).await.expect("a connection")
}

/// Returns a hold that no client renews.
pub(crate) async fn unrenewed(lock: &EtcdBackend, ttl: Duration) -> Lease {
    lock.acquire_lease(&LockRequest::new(fresh_name()).ttl(ttl)).await.expect("a free lock")
}

pub(crate) fn renewal(lease: &Lease) -> Renewal {
    Renewal::new(lease, Ttl::new(lease.ttl()).expect("a good TTL"))
}

async fn until_free(server: &EtcdServer, lease: &Lease) {
    let name = lease.name().as_str();
    eventually("the lock is free", LIMIT, async || claims(server, name).is_empty()).await;
}

/// C20: after a client's shutdown no lease is left, however long its TTLs are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c20_an_orderly_shutdown_ends_the_sessions_at_once() {
    let server = EtcdServer::start().await;
    let (holder, waiter) = (client(&server.url()).await, client(&server.url()).await);
    let guard = holder.acquire(patient("a").ttl(60 * MINUTE)).await.expect("a free lock");
    let other = holder.acquire(patient("b").ttl(24 * 60 * MINUTE)).await.expect("a free lock");
    let waiting = queued(&waiter, &holder, patient("a"), "a").await;
    assert!(leases(&server).len() >= 3);
    released(guard).await;
    released(served(waiting).await).await;
    waiter.shutdown().await;
    holder.shutdown().await;
    assert_eq!(leases(&server), [""; 0]);
    assert!(!other.is_held());
}

/// C20: the shutdown of one client ends no hold of another that shares its backend.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c20_a_shutdown_leaves_the_holds_of_others_alone() {
    let server = one_member().await;
    let lock = Arc::new(backend(server).await);
    let (one, two) = (client_of(lock.clone()), client_of(lock));
    let guard = held(&one, &fresh_name()).await;
    two.shutdown().await;
    assert!(timeout(2 * SLACK, guard.lost()).await.is_err(), "it was ended");
    released(guard).await;
}

/// S5: a hold that came from a place of a longer TTL is on the session of that TTL. The client that attaches it moves it,
/// C13, L1: a hold that no client renews ends with its own TTL, even if other holds keep its session alive.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_that_nobody_renews_ends_although_its_session_goes_on() {
    let server = one_member().await;
    let lock = backend(server).await;
    let (abandoned, renewed) =
        (unrenewed(&lock, 3 * SECOND).await, unrenewed(&lock, 3 * SECOND).await);
    let began = Instant::now();
    eventually("the abandoned one has ended", LIMIT, async || {
        let answer = lock.extend_one(&renewal(&renewed)).await;
        assert!(matches!(answer, Ok(Extension::Extended(_))), "{answer:?}");
        claims(server, abandoned.name().as_str()).is_empty()
    })
    .await;
    let took = began.elapsed();
    assert!(took > 2 * SECOND && took < 4 * SECOND + SLACK, "ended after {took:?}");
    assert_eq!(lock.extend_one(&renewal(&abandoned)).await.expect("an answer"), Extension::Lost);
    lock.release(renewed.name(), renewed.owner()).await.expect("an answer");
}

/// A process that hangs loses its holds with its session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_hangs_loses_its_session() {
    let server = one_member().await;
    let url = server.url();
    let hanging = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let held = runtime.block_on(async {
            let lock = EtcdBackend::connect(&url).await.expect("a connection");
            let lease = unrenewed(&lock, 2 * SECOND).await;
            (lock, lease)
        });
        // The tasks of the runtime do not run any more, but nothing is closed.
        (runtime, held)
    });
    let (runtime, (lock, lease)) = hanging.join().expect("no panic");
    let began = Instant::now();
    until_free(server, &lease).await;
    let took = began.elapsed();
    assert!(took < 2 * SECOND + MARGIN + 2 * SLACK, "ended after {took:?}");
    drop(lock);
    runtime.shutdown_background();
}

/// A session that the server has ended costs only the holds on it, which are reported lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_ended_is_replaced() {
    let server = EtcdServer::start().await;
    let (client, observer) = (client(&server.url()).await, client(&server.url()).await);
    for waits in [false, true] {
        let guard = held(&client, "a").await;
        sleep(SLACK).await;
        let lease = lease_of(&server, &claims(&server, "a")[0]);
        server.ctl(&["lease", "revoke", &lease]);
        let reason = timeout(LIMIT, guard.lost()).await.expect("the loss is told");
        assert_eq!(reason, LostReason::Evicted);
        drop(guard);
        let request = if waits { patient("b") } else { patient("b").wait(Wait::AtMost(SECOND)) };
        released(client.acquire(request).await.expect("another session")).await;
    }
    assert!(observer.admin().list("", 10).await.expect("an answer").is_empty());
}

/// An eviction ends one hold, and no other on the same session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_eviction_ends_no_other_hold_of_the_session() {
    let server = one_member().await;
    let (holder, operator) = (client(&server.url()).await, client(&server.url()).await);
    let (evicted, other) = (held(&holder, &fresh_name()).await, held(&holder, &fresh_name()).await);
    operator.admin().evict(evicted.name()).await.expect("an answer").pop().expect("it was held");
    let reason = timeout(LIMIT, evicted.lost()).await.expect("the loss is told");
    assert_eq!(reason, LostReason::Evicted);
    assert!(timeout(2 * SLACK, other.lost()).await.is_err(), "it was ended too");
    released(other).await;
}

/// C19: the mark of a withdrawal stays for as long as it must be remembered, and no longer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c19_the_mark_of_a_withdrawal_lasts_for_half_a_minute() {
    let server = EtcdServer::start().await;
    let lock = backend(&server).await;
    let claim = patient("a").claim().expect("a good claim");
    lock.withdraw(&claim.name, &[claim.owner]).await.expect("an answer");
    let marks = server.ctl(&["get", "--prefix", "leasehold/withdrawn/", "--keys-only"]);
    let lease = lease_of(&server, marks.trim());
    let left = server.ctl(&["lease", "timetolive", &lease]);
    let left = left.split("remaining(").nth(1).and_then(|left| left.split('s').next());
    let left: u64 = left.expect("a TTL").parse().expect("a number");
    assert!((30..=40).contains(&left), "{left} s");
}

/// C19: a late write, after all marks are gone, does not live on with the session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c19_a_key_that_no_claim_knows_is_deleted() {
    let server = EtcdServer::start().await;
    let (lock, name) = (backend(&server).await, fresh_name());
    // The client looks for such keys once in the TTL of a session, and every ten seconds at most.
    let request = patient(&fresh_name()).ttl(8 * SECOND);
    let guard = client_of(Arc::new(lock)).acquire(request).await.expect("a free lock");
    let lease = lease_of(&server, &claims(&server, guard.name().as_str())[0]);
    let id = i64::from_str_radix(&lease, 16).expect("a number");
    // A late request for a claim of this client.
    let ghost = format!("leasehold/locks/{name}/s-{}", OwnerId::random().expose());
    let on_session = Some(PutOptions::new().with_lease(id));
    raw(&server).await.put(ghost, "", on_session).await.expect("an answer");
    eventually("the ghost is gone", LIMIT, async || claims(&server, &name).is_empty()).await;
    assert!(guard.is_held());
    released(guard).await;
}

/// If the grant of a lease has no answer, no lease is left, whether the request was carried out at once or
/// arrives late.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_whose_grant_had_no_answer_is_ended() {
    let server = EtcdServer::start().await;
    for mode in [Mode::SwallowReplies, Mode::BlackHole] {
        let proxy = Proxy::start(server.addr()).await;
        let client = client_through::<EtcdFaults>(&proxy).await;
        proxy.set(mode);
        let request = LockRequest::new(fresh_name()).ttl(60 * MINUTE).wait(Wait::Never);
        client.acquire(request).await.expect_err("no answer came");
        if mode == Mode::SwallowReplies {
            proxy.cut();
        }
        proxy.set(Mode::Pass);
        // The same lease is requested again.
        let request = patient(&fresh_name()).ttl(60 * MINUTE);
        released(client.acquire(request).await.expect("a free lock")).await;
        client.shutdown().await;
        eventually("only marks are left", LIMIT, async || only_marks_are_left(&server).await).await;
    }
}

/// If a connection is cut at any point of acquire, extend and release, no session is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_session_is_left_wherever_a_connection_is_cut() {
    let server = EtcdServer::start().await;
    let proxies = join_all((0..30).map(|_| Proxy::start(server.addr()))).await;
    let cut = async |(proxy, step): (Proxy, u64)| {
        let client = client_through::<EtcdFaults>(&proxy).await;
        proxy.set_existing(Mode::CutAfter(step * 75));
        let guard = client.acquire(patient(&fresh_name()).ttl(60 * MINUTE)).await;
        let guard = guard.expect("a free lock");
        // A busy machine may take longer than one request has.
        eventually("extended", LIMIT, async || guard.extend(120 * MINUTE).await.is_ok()).await;
        guard.release().await.expect("an answer");
        client.shutdown().await;
    };
    // In parallel without a limit, the tests would slow each other too much.
    stream::iter(proxies).zip(stream::iter(1..)).for_each_concurrent(4, cut).await;
    <EtcdFaults as Harness>::until_nothing_is_left(&server).await;
}

/// The record of a run has a lease for as long as the run is remembered. It goes with the record.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r1_no_lease_is_left_by_a_record_that_is_replaced_or_forgotten() {
    let server = EtcdServer::start().await;
    let client = client(&server.url()).await;
    let guard = held(&client, "a").await;
    let before = leases(&server).len();
    for _ in 0..2 {
        guard.record("monday", MINUTE).await.expect("held");
        assert_eq!(leases(&server).len(), before + 1);
    }
    assert!(client.admin().forget("a", "monday").await.expect("an answer"));
    assert_eq!(leases(&server).len(), before);
    released(guard).await;
}

/// If a connection is cut at any point of a record, the lease of each try without a record is ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r1_no_lease_is_left_wherever_the_connection_of_a_record_is_cut() {
    let server = EtcdServer::start().await;
    let proxies = join_all((0..30).map(|_| Proxy::start(server.addr()))).await;
    let cut = async |(proxy, step): (Proxy, u64)| {
        let client = client_through::<EtcdFaults>(&proxy).await;
        // The session of the hold ends by itself in time, if its connection is cut at the end.
        let request = patient(&fresh_name()).ttl(LIMIT);
        let guard = client.acquire(request).await.expect("a free lock");
        proxy.set_existing(Mode::CutAfter(step * 25));
        // A busy machine may take longer than one request has.
        eventually("recorded", LIMIT, async || guard.record("monday", MINUTE * 60).await.is_ok())
            .await;
        let name = guard.name().clone();
        guard.release().await.expect("an answer");
        // The cut may come here: the record sends fewer bytes than the last steps let through.
        let forget = async || client.admin().forget(name.as_str(), "monday").await.is_ok();
        eventually("forgotten", LIMIT, forget).await;
        client.shutdown().await;
    };
    stream::iter(proxies).zip(stream::iter(1..)).for_each_concurrent(4, cut).await;
    <EtcdFaults as Harness>::until_nothing_is_left(&server).await;
}

/// R1: a shutdown also waits for a lease that the client is ending already.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r1_a_shutdown_waits_for_a_lease_that_is_being_ended() {
    let server = EtcdServer::start().await;
    let proxy = Proxy::start(server.addr()).await;
    let client = client_through::<EtcdFaults>(&proxy).await;
    let guard = client.acquire(patient("a")).await.expect("a free lock");
    proxy.set(Mode::SwallowReplies);
    let granted = eventually("the record has a lease", LIMIT, async || leases(&server).len() == 2);
    tokio::select! {
        recorded = guard.record("monday", MINUTE * 60) => panic!("{recorded:?}"),
        () = granted => {}
    }
    proxy.set(Mode::Delay(Duration::from_millis(300)));
    proxy.cut();
    guard.release().await.expect("an answer");
    let released = proxy.request_bytes();
    eventually("the client ends it", LIMIT, async || proxy.request_bytes() > released).await;
    client.shutdown().await;
    assert_eq!(leases(&server).len(), 0);
}

/// A client that first needs a new lease also leaves a stopped member for another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_member_is_left_for_another_before_a_lease_is_granted() {
    let cluster = EtcdServer::start_cluster(3).await;
    let client = impatient(&followers_of(&cluster).await).await;
    let guard = held(&client, &fresh_name()).await;
    let stopped = member_in_use(&cluster).await;
    cluster.members()[stopped].stop();
    // Another TTL needs another lease.
    let request = LockRequest::new(fresh_name()).ttl(60 * MINUTE).wait(Wait::AtMost(6 * SECOND));
    let acquired = client.acquire(request).await;
    cluster.members()[stopped].cont();
    released(acquired.expect("another member answers")).await;
    released(guard).await;
}
