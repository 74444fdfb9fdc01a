//! Renewal of holds on a session: the cost, and the result of each hold.

use leasehold::core::backend::DistributedLockExt;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use leasehold::core::backend::{Extension, Renewal};
use leasehold::core::{LockAdmin, Whom};
use leasehold::{DistributedLock, Lease, LockError, LockGuard, Ttl, Wait};
use lock_testkit::{EtcdServer, Mode, Proxy, eventually};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::faults::lease_of;
use crate::servers::{SHORTEST_TTL, claims, gauge, one_member, url_at};
use crate::sessions::{backend, renewal, unrenewed};
use crate::support::{
    LIMIT, MINUTE, SLACK, acquiring, client, fresh_name, held, patient, released, renewed,
};

const SECOND: Duration = Duration::from_secs(1);

/// C12: renewals cost the same for any number of holds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c12_renewals_are_one_request_for_all_holds() {
    let server = EtcdServer::start().await;
    let client = client(&server.url()).await;
    let mut guards = Vec::new();
    for i in 0..20 {
        let names: Vec<_> = (0..50).map(|j| format!("{i}-{j}")).collect();
        let some = names.iter().map(|name| client.acquire(patient(name).ttl(15 * SECOND)));
        guards.extend(join_all(some).await.into_iter().map(|guard| guard.expect("a free lock")));
    }
    let first: Vec<_> = guards.iter().map(|guard| guard.deadline()).collect();
    let before = requests(&server).await;
    let began = Instant::now();
    eventually("all are renewed", LIMIT, async || {
        guards.iter().zip(&first).all(|(guard, first)| guard.deadline() != *first)
    })
    .await;
    let (sent, took) = (requests(&server).await - before, began.elapsed());
    // Keep-alives, the keys of the holds, and the watches that begin; some of them again on a busy machine. A request for
    // each hold would be a thousand.
    let allowed = 10 * took.as_secs() + 60;
    assert!(sent <= allowed, "{sent} requests in {took:?} for {} holds", guards.len());
    assert!(guards.iter().all(|guard| guard.is_held()));
    client.shutdown().await;
}

/// Many waiters cost little: each client looks at its places, and renews their session at a third of its TTL.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c12_a_client_that_waits_sends_few_requests() {
    const WAITERS: u32 = 20;
    let server = EtcdServer::start().await;
    let holder = client(&server.url()).await;
    let guard = held(&holder, "a").await;
    let mut waiting = Vec::new();
    for _ in 0..WAITERS {
        let waiter = client(&server.url()).await;
        waiting.push(acquiring(&waiter, patient("a")));
    }
    let all = WAITERS as usize + 1;
    eventually("all wait", LIMIT, async || claims(&server, "a").len() == all).await;
    let (before, began) = (requests(&server).await, Instant::now());
    sleep(4 * SECOND).await;
    let (sent, took) = (requests(&server).await - before, began.elapsed());
    // A look every 0.8 s. The rest is for the holder.
    let allowed = took.as_secs_f64() * f64::from(2 * WAITERS) + 20.0;
    assert!((sent as f64) < allowed, "{sent} requests of {WAITERS} waiters in {took:?}");
    assert!(guard.is_held() && waiting.iter().all(|waiting| !waiting.is_finished()));
    waiting.iter().for_each(|waiting| waiting.abort());
}

/// Makes holds of one client, and as many waits of another.
async fn holds_and_waits(
    server: &EtcdServer,
    count: usize,
    ttl: Duration,
) -> (Vec<LockGuard>, Vec<JoinHandle<Result<LockGuard, LockError>>>) {
    let (holder, waiter) = (client(&server.url()).await, client(&server.url()).await);
    let request = |number| patient(&format!("{number}")).ttl(ttl).wait(Wait::Forever);
    let mut guards = Vec::new();
    for number in 0..count {
        guards.push(holder.acquire(request(number)).await.expect("a free lock"));
    }
    let waiting = (0..count).map(|number| acquiring(&waiter, request(number))).collect();
    let keys = ["get", "--prefix", "leasehold/locks/", "--keys-only"];
    let claims = || server.ctl(&keys).lines().filter(|line| !line.is_empty()).count();
    eventually("all wait", LIMIT, async || claims() == 2 * count).await;
    (guards, waiting)
}

/// C12: holds and waits alone cost the server little: a look at all places, a keep-alive, a read of all holds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c12_fifty_holds_and_fifty_waits_are_few_requests() {
    let server = EtcdServer::start().await;
    let (guards, waiting) = holds_and_waits(&server, 50, 30 * SECOND).await;
    // The initial costs are over.
    sleep(2 * SECOND).await;
    let (before, began) = (requests(&server).await, Instant::now());
    sleep(12 * SECOND).await;
    let (sent, took) = (requests(&server).await - before, began.elapsed());
    assert!((sent as f64) < 10.0 * took.as_secs_f64(), "{sent} requests in {took:?}");
    assert!(guards.iter().all(LockGuard::is_held));
    waiting.iter().for_each(JoinHandle::abort);
    join_all(guards.into_iter().map(released)).await;
}

/// C8: the client's own looks wait for a silent keep-alive too. It ends within a short TTL all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c08_a_silent_keep_alive_costs_no_hold_of_a_short_ttl() {
    let proxy = Proxy::start(one_member().await.addr()).await;
    let client = client(&url_at(proxy.addr())).await;
    let request = patient(&fresh_name()).ttl(2 * SHORTEST_TTL);
    let guard = client.acquire(request).await.expect("a free lock");
    for _ in 0..3 {
        proxy.set_existing(Mode::BlackHole);
        renewed(&guard).await;
    }
    released(guard).await;
}

/// C12: a session has one keep-alive in flight, however many callers ask for it after a stall of the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c12_a_stall_of_the_server_brings_no_flood_of_keep_alives() {
    let server = EtcdServer::start().await;
    let (guards, waiting) = holds_and_waits(&server, 100, 3 * SHORTEST_TTL).await;
    let before = started(&server, "etcdserverpb.Lease", "LeaseKeepAlive").await;
    server.stop();
    // The fault: longer than the rest of the sessions.
    sleep(9 * SECOND).await;
    server.cont();
    sleep(2 * SECOND).await;
    let sent = started(&server, "etcdserverpb.Lease", "LeaseKeepAlive").await - before;
    // Two clients, two a second each, during the stall and after it.
    assert!(sent < 100, "{sent} keep-alives");
    waiting.iter().for_each(JoinHandle::abort);
    drop(guards);
}

/// C12: the reopening of a stream of watches takes few requests, for any number of watched holds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c12_watches_that_are_opened_again_are_read_together() {
    const HOLDS: usize = 300;
    let server = EtcdServer::start().await;
    let proxy = Proxy::start(server.addr()).await;
    let client = client(&url_at(proxy.addr())).await;
    let names: Vec<_> = (0..HOLDS).map(|number| format!("hold-{number}")).collect();
    let guards = join_all(names.iter().map(|name| held(&client, name))).await;
    let reads = async || {
        let gets = started(&server, "etcdserverpb.KV", "Range").await;
        gets + started(&server, "etcdserverpb.KV", "Txn").await
    };
    let opened = async || started(&server, "etcdserverpb.Watch", "Watch").await;
    let watchers = async || gauge(&server, "etcd_debugging_mvcc_watcher_total").await as usize;
    eventually("all are watched", LIMIT, async || watchers().await == HOLDS).await;
    sleep(SECOND).await;
    let (before, streams) = (reads().await, opened().await);
    proxy.cut();
    eventually("a stream is opened", LIMIT, async || opened().await > streams).await;
    eventually("all are watched again", LIMIT, async || watchers().await == HOLDS).await;
    sleep(SECOND).await;
    let sent = reads().await - before;
    assert!(sent < HOLDS as u64 / 2, "{sent} reads for {HOLDS} watches");
    assert!(guards.iter().all(LockGuard::is_held));
    client.shutdown().await;
}

/// Returns the number of renewal requests at the server: for leases, and transactions.
pub(crate) async fn requests(server: &EtcdServer) -> u64 {
    let mut all = 0;
    for (service, method) in [
        ("etcdserverpb.Lease", "LeaseKeepAlive"),
        ("etcdserverpb.Lease", "LeaseTimeToLive"),
        ("etcdserverpb.Lease", "LeaseGrant"),
        ("etcdserverpb.KV", "Txn"),
    ] {
        all += started(server, service, method).await;
    }
    all
}

pub(crate) async fn started(server: &EtcdServer, service: &str, method: &str) -> u64 {
    let is_stream = ["LeaseKeepAlive", "Watch"].contains(&method);
    let kind = if is_stream { "bidi_stream" } else { "unary" };
    let name = format!(
        "grpc_server_started_total{{grpc_method=\"{method}\",grpc_service=\"{service}\",grpc_type=\"{kind}\"}}"
    );
    gauge(server, &name).await
}

/// C10: an extension for less time leaves a hold on its session, with its present end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c10_an_extension_to_less_takes_nothing_away() {
    let server = one_member().await;
    let lock = backend(server).await;
    let lease = unrenewed(&lock, MINUTE).await;
    let key = claims(server, lease.name().as_str()).pop().expect("a key");
    let session = lease_of(server, &key);
    let less = Renewal::new(&lease, Ttl::new(SECOND).expect("a good TTL"));
    lock.extend_one(&less).await.expect("an answer");
    assert_eq!(lease_of(server, &key), session);
    // The keeper looks for ended claims five times a second.
    sleep(2 * SECOND).await;
    assert_eq!(claims(server, lease.name().as_str()), [key]);
    lock.release(lease.name(), lease.owner()).await.expect("an answer");
}

/// C10: of many holds that are extended at once, each gets its own result.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c10_a_batch_tells_which_hold_is_lost() {
    let server = one_member().await;
    let lock = backend(server).await;
    let leases = join_all((0..3).map(|_| unrenewed(&lock, MINUTE))).await;
    lock.evict(leases[1].name(), &Whom::All).await.expect("an answer").pop().expect("it was held");
    let renewals: Vec<_> = leases.iter().map(renewal).collect();
    let answers = lock.extend(&renewals).await;
    let lost = answers.iter().map(|answer| matches!(answer, Ok(Extension::Lost)));
    assert_eq!(lost.collect::<Vec<_>>(), [false, true, false], "{answers:?}");
    for lease in leases {
        lock.release(lease.name(), lease.owner()).await.expect("an answer");
    }
}

/// A key that a late request put on another session of the client is a hold like any other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_is_found_on_another_session() {
    let server = EtcdServer::start().await;
    let lock = backend(&server).await;
    let (moved, other) = (unrenewed(&lock, 6 * SECOND).await, unrenewed(&lock, 15 * SECOND).await);
    let key = |lease: &Lease| claims(&server, lease.name().as_str())[0].clone();
    let longer = lease_of(&server, &key(&other));
    server.ctl(&["put", &key(&moved), "--ignore-value", &format!("--lease={longer}")]);
    let end = Instant::now() + 10 * SECOND;
    while Instant::now() < end {
        let answers = lock.extend(&[renewal(&moved), renewal(&other)]).await;
        let held = |answer: &Result<_, _>| matches!(answer, Ok(Extension::Extended(_)));
        assert!(answers.iter().all(held), "{answers:?}");
        sleep(SLACK).await;
    }
}
