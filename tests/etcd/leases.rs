//! What becomes of leases: no two claims share one, none is revoked under another hold, and none is left
//! behind, whatever message was lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use leasehold::core::backend::{Extension, Renewal};
use leasehold::etcd::EtcdBackend;
use leasehold::etcd::etcd_client::Client;
use leasehold::{
    DistributedLock, Lease, LeaseExt, LockAdmin, LockClient, LockName, LockRequest, LostReason,
    Ttl, Wait,
};
use lock_testkit::{EtcdServer, Mode, Proxy, eventually};
use tokio::time::{sleep, timeout};

use crate::faults::lease_of;
use crate::servers::{EtcdFaults, claims, leases, one_member, url_at};
use crate::support::{
    LIMIT, MINUTE, SLACK, client, client_of, client_through, fresh_name, held, patient, queued,
    released, served, served_within, turn, until_waiting,
};

const SECOND: Duration = Duration::from_secs(1);

/// The leases of so many seconds, which their ids tell.
fn leases_of(server: &EtcdServer, seconds: i64) -> Vec<String> {
    let told = |id: &String| i64::from_str_radix(id, 16).is_ok_and(|id| id % (1 << 17) == seconds);
    let ids = leases(server).into_iter().filter(told);
    ids.map(|id| id.trim_start_matches('0').to_owned()).collect()
}

/// Ends leases behind everyone's back.
async fn revoke(server: &EtcdServer, leases: &[String]) {
    let etcd = Client::connect([server.addr().to_string()], None).await.expect("a client");
    let end = leases.iter().map(async |lease| {
        let id = i64::from_str_radix(lease, 16).expect("a number");
        etcd.clone().lease_revoke(id).await.expect("it is there");
    });
    join_all(end).await;
}

/// The keys of all claims.
fn keys(server: &EtcdServer) -> Vec<String> {
    let keys = server.ctl(&["get", "--prefix", "leasehold/locks/", "--keys-only"]);
    keys.split_whitespace().map(str::to_owned).collect()
}

async fn until_no_lease_is_left(server: &EtcdServer) {
    eventually("no lease is left", LIMIT, async || leases(server).is_empty()).await;
}

/// Leaves a lease of a minute and one of 2 s in stock: for a hold, and for a place in a queue.
async fn fill_the_stock(client: &LockClient) {
    let names = [fresh_name(), fresh_name()];
    let requests = [patient(&names[0]), patient(&names[1]).ttl(2 * SECOND)];
    for guard in join_all(requests.map(|request| client.acquire(request))).await {
        released(guard.expect("a free lock")).await;
    }
}

/// An operator evicts a hold. Since it looked, the hold has moved to another lease, and its old lease
/// serves another hold: that one goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_evicts_ends_no_other_hold() {
    let server = one_member().await;
    let proxy = Proxy::start(server.addr()).await;
    let (holder, name, other) = (client(&server.url()).await, fresh_name(), fresh_name());
    let lock = EtcdBackend::connect(&url_at(proxy.addr())).await.expect("a connection");
    turn(&client_of(Arc::new(lock.clone())), &fresh_name()).await;
    let evicted = holder.acquire(patient(&name).ttl(31 * SECOND)).await.expect("a free lock");
    let delay = Duration::from_millis(400);
    proxy.set(Mode::Delay(delay));
    let its_name = LockName::new(&name).expect("a good name");
    let evicting = tokio::spawn(async move { lock.evict(&its_name).await });
    // The server has sent it the answer by now, and it has yet to read it.
    sleep(delay * 3 / 2).await;
    evicted.extend(MINUTE).await.expect("held");
    let guard = holder.acquire(patient(&other).ttl(31 * SECOND)).await.expect("a free lock");
    assert!(!evicting.is_finished(), "the machine is too slow");
    assert!(evicting.await.expect("no panic").expect("an answer").is_some());
    let reason = timeout(LIMIT, evicted.lost()).await.expect("the loss is told");
    assert_eq!(reason, LostReason::Evicted);
    assert!(timeout(2 * SECOND, guard.lost()).await.is_err(), "it was ended too");
    released(guard).await;
}

/// A process that evicts, and ends then, leaves no lease behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_eviction_ends_the_lease_with_the_hold() {
    let server = EtcdServer::start().await;
    let connect = async || EtcdBackend::connect(&server.url()).await.expect("a connection");
    let (holder, evictor) = (connect().await, connect().await);
    let claim = patient("a").claim().expect("a good name");
    holder.try_acquire(&claim, None).await.expect("an answer");
    assert_eq!(leases(&server).len(), 1);
    assert!(evictor.evict(&claim.name).await.expect("an answer").is_some());
    assert_eq!(leases(&server).len(), 0);
}

/// C19: a request that was held back is carried out after its claim was withdrawn, though a later
/// request of the claim had found one of its two leases gone.
#[tokio::test]
async fn c19_a_late_request_is_refused_though_one_of_its_leases_was_gone() {
    let server = EtcdServer::start().await;
    let proxy = Proxy::start(server.addr()).await;
    let (holder, waiter) =
        (client(&server.url()).await, client_through::<EtcdFaults>(&proxy).await);
    let name = fresh_name();
    let guard = holder.acquire(patient(&name).ttl(31 * SECOND)).await.expect("a free lock");
    fill_the_stock(&waiter).await;
    proxy.set(Mode::BlackHole);
    let request = patient(&name).wait(Wait::Forever);
    let its = waiter.clone();
    let waiting = tokio::spawn(async move { its.acquire(request).await });
    // The task sends its request as soon as it is let run; then its lease for the queue ends.
    sleep(Duration::from_millis(100)).await;
    revoke(&server, &leases_of(&server, 2)).await;
    // On this one thread nothing happens between the two.
    proxy.set(Mode::Pass);
    proxy.set_existing(Mode::BlackHole);
    until_waiting(&holder, &name, 1).await;
    waiting.abort();
    waiter.shutdown().await;
    released(guard).await;
    proxy.set_existing(Mode::Pass);
    let end = Instant::now() + 4 * SLACK;
    while Instant::now() < end {
        assert_eq!(claims(&server, &name), [""; 0], "a withdrawn claim took the lock");
        sleep(SLACK / 10).await;
    }
}

/// The lease of a waiter's place is its own, also after a request of it that never left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiters_lease_serves_no_other() {
    let server = EtcdServer::start().await;
    let holder = EtcdBackend::connect(&server.url()).await.expect("a connection");
    let (mut proxies, mut locks, mut waiting) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..12 {
        let proxy = Proxy::start(server.addr()).await;
        let url = format!("etcd://{},127.0.0.1:1,{}/", proxy.addr(), server.addr());
        locks.push(Arc::new(EtcdBackend::connect(&url).await.expect("a connection")));
        proxies.push(proxy);
    }
    let clients: Vec<_> = locks.iter().map(|lock| client_of(lock.clone())).collect();
    join_all(clients.iter().map(fill_the_stock)).await;
    revoke(&server, &leases_of(&server, 60)).await;
    for client in &clients {
        let lease = unrenewed(&holder, 31 * SECOND).await;
        let (client, request) = (client.clone(), patient(lease.name().as_str()));
        waiting.push(tokio::spawn(async move { client.acquire(request).await }));
    }
    eventually("all queue", LIMIT, async || keys(&server).len() == 24).await;
    // From now on the first request of each client finds its connection broken, and the second one finds
    // nobody: as a rule that is the waiter's. Then others want a lease such as that of its place.
    drop(proxies);
    let others = locks.iter().zip(&clients).zip(1_u32..).map(async |((lock, client), i)| {
        let _ = lock.inspect(&LockName::new("a").expect("a good name")).await;
        sleep(SLACK / 4 * i).await;
        client.acquire(patient(&fresh_name()).ttl(2 * SECOND)).await.expect("a free lock")
    });
    let others = join_all(others).await;
    let mut found: Vec<String> = keys(&server).iter().map(|key| lease_of(&server, key)).collect();
    assert!(found.len() >= 24 + others.len());
    found.sort();
    let all = found.len();
    found.dedup();
    assert_eq!(found.len(), all, "two keys have one lease");
    waiting.iter().for_each(|waiting| waiting.abort());
}

/// A lease that ended in stock delays neither a try at a busy lock, nor a waiter, nor those behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_ended_in_stock_delays_nobody() {
    let server = EtcdServer::start().await;
    let (holder, waiter) = (client(&server.url()).await, client(&server.url()).await);
    let name = fresh_name();
    let guard = holder.acquire(patient(&name).ttl(31 * SECOND)).await.expect("a free lock");
    for seconds in [60, 2] {
        fill_the_stock(&waiter).await;
        revoke(&server, &leases_of(&server, seconds)).await;
        let busy = waiter.try_acquire(patient(&name)).await.expect("an answer");
        assert!(busy.is_none(), "two holders");
        fill_the_stock(&waiter).await;
        revoke(&server, &leases_of(&server, seconds)).await;
        let waiting = queued(&waiter, &holder, patient(&name), &name).await;
        waiting.abort();
        until_waiting(&holder, &name, 0).await;
    }
    fill_the_stock(&waiter).await;
    revoke(&server, &leases_of(&server, 60)).await;
    let waiting = queued(&waiter, &holder, patient(&name), &name).await;
    served_within(SECOND + SLACK, guard, waiting).await;
}

/// A client that needs a new lease first also leaves a stopped member for another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_member_is_left_for_another_before_a_lease_is_granted() {
    let cluster = EtcdServer::start_cluster(3).await;
    let leader = cluster.leader().await;
    let follower = (leader + 1) % 3;
    let addresses = [follower, leader].map(|number| cluster.members()[number].addr().to_string());
    let client = client(&format!("etcd://{}/", addresses.join(","))).await;
    cluster.members()[follower].stop();
    let request = LockRequest::new(fresh_name()).wait(Wait::AtMost(3 * SECOND));
    let acquired = client.acquire(request).await;
    cluster.members()[follower].cont();
    released(acquired.expect("another member answers")).await;
}

/// A grant that had no answer leaves no lease, whether it was carried out at once or comes late.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_whose_grant_had_no_answer_is_ended() {
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
        // Longer than a request that was held back takes to arrive.
        sleep(SLACK).await;
        until_no_lease_is_left(&server).await;
        drop(client);
    }
}

/// Wherever a connection is cut while a lock is taken, extended and given back, no lease is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_lease_is_left_wherever_a_connection_is_cut() {
    let server = EtcdServer::start().await;
    let proxies = join_all((0..30).map(|_| Proxy::start(server.addr()))).await;
    let cut = proxies.iter().zip(1_u64..).map(async |(proxy, step)| {
        let client = client_through::<EtcdFaults>(proxy).await;
        proxy.set_existing(Mode::CutAfter(step * 75));
        let guard = client.acquire(patient(&fresh_name()).ttl(60 * MINUTE)).await;
        let guard = guard.expect("a free lock");
        // A busy machine may take longer than one request has.
        eventually("extended", LIMIT, async || guard.extend(120 * MINUTE).await.is_ok()).await;
        guard.release().await.expect("an answer");
        client
    });
    let clients = join_all(cut).await;
    until_no_lease_is_left(&server).await;
    drop(clients);
}

/// A waiter whose first answer was lost finds its place again, though many have come after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_is_found_again_behind_which_many_wait() {
    let server = one_member().await;
    let proxy = Proxy::start(server.addr()).await;
    let (holder, waiter) =
        (client(&server.url()).await, client_through::<EtcdFaults>(&proxy).await);
    let name = fresh_name();
    let guard = held(&holder, &name).await;
    fill_the_stock(&waiter).await;
    proxy.set(Mode::SwallowReplies);
    let found = Arc::new(AtomicBool::new(false));
    let tell = found.clone();
    let request = patient(&name).wait(Wait::Forever);
    let request = request.on_wait(move |_| tell.store(true, Ordering::Release));
    let waiting = tokio::spawn(async move { waiter.acquire(request).await });
    eventually("it has a place", LIMIT, async || claims(server, &name).len() == 2).await;
    let lock = leasehold::backend(&server.url()).await.expect("a connection");
    let behind = (0..20).map(|_| {
        let (client, request) = (client_of(lock.clone()), patient(&name));
        tokio::spawn(async move { client.acquire(request).await })
    });
    let behind: Vec<_> = behind.collect();
    eventually("many wait", LIMIT, async || claims(server, &name).len() == 22).await;
    proxy.cut();
    proxy.set(Mode::Pass);
    eventually("it is found", LIMIT, async || {
        assert!(!waiting.is_finished(), "it has given up");
        found.load(Ordering::Acquire)
    })
    .await;
    let token = guard.token();
    released(guard).await;
    let next = served(waiting).await;
    assert!(next.token() > token);
    behind.iter().for_each(|waiting| waiting.abort());
    released(next).await;
}

/// A request that moves a hold to a longer lease and had no answer may be carried out late. So that lease
/// is renewed with the hold, and the hold never gets shorter.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_extension_shortens_no_hold() {
    let server = EtcdServer::start().await;
    let proxy = Proxy::start(server.addr()).await;
    let lock = EtcdBackend::connect(&url_at(proxy.addr())).await.expect("a connection");
    let (lease, key, longer) = loop {
        let lease = unrenewed(&lock, 3 * SECOND).await;
        let key = claims(&server, lease.name().as_str()).pop().expect("a key");
        lose_an_extension(&lock, &proxy, &lease).await;
        renewed_for(&lock, &lease, 2 * SECOND).await;
        // Else it was no request to move that was lost: the machine was too slow.
        let longer = leases_of(&server, 5).pop();
        if let Some(longer) = longer.filter(|longer| *longer != lease_of(&server, &key)) {
            break (lease, key, longer);
        }
        lock.release(lease.name(), lease.owner()).await.expect("an answer");
        until_no_lease_is_left(&server).await;
    };
    renewed_for(&lock, &lease, 6 * SECOND).await;
    // What the request does when it arrives.
    server.ctl(&["put", &key, "--ignore-value", &format!("--lease={longer}")]);
    renewed_for(&lock, &lease, 6 * SECOND).await;
    assert_eq!(lease_of(&server, &key), longer);
    lock.release(lease.name(), lease.owner()).await.expect("an answer");
    until_no_lease_is_left(&server).await;
}

/// A hold that nobody renews.
async fn unrenewed(lock: &EtcdBackend, ttl: Duration) -> Lease {
    lock.acquire_lease(&LockRequest::new(fresh_name()).ttl(ttl)).await.expect("a free lock")
}

/// Asks to extend a hold to 5 s. The request that moves it to a lease of 5 s, which is in stock, is
/// the third one that is sent: it is lost.
async fn lose_an_extension(lock: &EtcdBackend, proxy: &Proxy, lease: &Lease) {
    let other = unrenewed(lock, 5 * SECOND).await;
    lock.release(other.name(), other.owner()).await.expect("an answer");
    let delay = Duration::from_millis(300);
    proxy.set(Mode::Delay(delay));
    let renewal = Renewal::new(lease, Ttl::new(5 * SECOND).expect("a good TTL"));
    let its = lock.clone();
    let extending = tokio::spawn(async move { its.extend(&renewal).await });
    sleep(delay * 3).await;
    proxy.set_existing(Mode::SwallowRequests);
    sleep(delay * 3).await;
    extending.abort();
    let _ = extending.await;
    proxy.set(Mode::Pass);
}

/// Renews a hold for a while.
async fn renewed_for(lock: &EtcdBackend, lease: &Lease, span: Duration) {
    let renewal = Renewal::new(lease, Ttl::new(lease.ttl()).expect("a good TTL"));
    let end = Instant::now() + span;
    while Instant::now() < end {
        let answer = lock.extend(&renewal).await;
        assert!(!matches!(answer, Ok(Extension::Lost)), "the hold was shortened");
        sleep(SLACK).await;
    }
}
