//! Dead, stopped and deaf members, leaders that go, and streams that break.

use std::time::{Duration, Instant};

use leasehold::{LockClient, LockError, LockGuard, LockRequest, LostReason, Release, Wait};
use test_support::{EtcdServer, Mode, Proxy, eventually};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::servers::{claims, one_member, revision};
use crate::{LIMIT, MINUTE, REQUEST_TIMEOUT, SLACK, client, fresh_name, patient};

async fn fails_in_time<T: std::fmt::Debug>(
    limit: Duration,
    call: impl Future<Output = Result<T, LockError>>,
) {
    let asked = Instant::now();
    let failed = call.await;
    let took = asked.elapsed();
    assert!(failed.is_err(), "{failed:?} without a server");
    assert!(took < limit + Duration::from_millis(100) + SLACK, "{took:?} at a limit of {limit:?}");
}

async fn every_call_fails_in_time(client: &LockClient, held: LockGuard) {
    let name = fresh_name();
    let request = |wait| LockRequest::new(&name).ttl(MINUTE).wait(wait);
    let short = Duration::from_millis(300);
    fails_in_time(short, client.acquire(request(Wait::AtMost(short)))).await;
    fails_in_time(REQUEST_TIMEOUT, client.acquire(request(Wait::No))).await;
    fails_in_time(REQUEST_TIMEOUT, client.inspect(&name)).await;
    fails_in_time(REQUEST_TIMEOUT, client.list("", 9)).await;
    fails_in_time(REQUEST_TIMEOUT, client.doctor()).await;
    fails_in_time(REQUEST_TIMEOUT, held.extend(MINUTE)).await;
    fails_in_time(REQUEST_TIMEOUT, held.release()).await;
}

/// Lets `client` wait for `name`, and returns once its place is the only one in the queue.
async fn queue(
    client: &LockClient,
    observer: &LockClient,
    request: LockRequest,
    name: &str,
) -> JoinHandle<Result<LockGuard, LockError>> {
    let client = client.clone();
    let waiting = tokio::spawn(async move { client.acquire(request).await });
    eventually("it queues", LIMIT, async || {
        observer.inspect(name).await.is_ok_and(|state| state.waiters == Some(1))
    })
    .await;
    waiting
}

async fn served(waiting: JoinHandle<Result<LockGuard, LockError>>) -> LockGuard {
    let next = timeout(LIMIT, waiting).await.expect("its turn comes").expect("no panic");
    next.expect("granted")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c17_a_stopped_server_delays_no_call_beyond_its_time_out() {
    let server = EtcdServer::start().await;
    let client = client(&server.url()).await;
    let guard = client.acquire(patient(&fresh_name())).await.expect("a free lock");
    server.stop();
    every_call_fails_in_time(&client, guard).await;
    server.cont();
    drop(client.acquire(patient(&fresh_name())).await.expect("it goes on"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c17_a_dead_server_delays_no_call_beyond_its_time_out() {
    let mut server = EtcdServer::start().await;
    let client = client(&server.url()).await;
    let guard = client.acquire(patient(&fresh_name())).await.expect("a free lock");
    server.kill();
    every_call_fails_in_time(&client, guard).await;
    server.restart().await;
    drop(client.acquire(patient(&fresh_name())).await.expect("it goes on"));
}

/// C15, C17: without a majority every call fails in time with an error that says so, and a holder
/// stops believing at its deadline; with one, locks work again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c17_without_a_majority_every_call_fails_in_time() {
    let mut cluster = EtcdServer::start_cluster(3).await;
    let client = client(&cluster.url()).await;
    let guard = client.acquire(patient(&fresh_name())).await.expect("a free lock");
    let ttl = Duration::from_secs(3);
    let doomed = client.acquire(patient(&fresh_name()).ttl(ttl)).await.expect("a free lock");
    let leader = cluster.leader().await;
    let other = (leader + 1) % 3;
    cluster.member(leader).kill();
    cluster.member(other).kill();
    let killed = Instant::now();
    every_call_fails_in_time(&client, guard).await;
    let reason = timeout(LIMIT, doomed.lost()).await.expect("the loss is told");
    assert_eq!(reason, LostReason::Expired);
    let took = killed.elapsed();
    // The calls above take some of it.
    assert!(took < ttl + REQUEST_TIMEOUT * 7 + SLACK, "noticed after {took:?}");
    cluster.member(leader).restart().await;
    let name = fresh_name();
    let guard = client.acquire(patient(&name)).await.expect("it goes on");
    assert_eq!(guard.release().await.expect("an answer"), Release::Released);
}

/// L1: a cluster that changes its leader, in order or by its death, keeps holds and waiters.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_and_a_waiter_outlive_their_leader() {
    let mut cluster = EtcdServer::start_cluster(3).await;
    let url = cluster.url();
    let (holder, waiter) = (client(&url).await, client(&url).await);
    let name = fresh_name();
    let guard = holder.acquire(patient(&name)).await.expect("a free lock");
    let waiting = queue(&waiter, &holder, patient(&name), &name).await;
    cluster.move_leader().await;
    let (dies, before) = (cluster.leader().await, guard.deadline());
    cluster.member(dies).kill();
    eventually("held, after an election", LIMIT, async || guard.extend(MINUTE).await.is_ok()).await;
    assert!(guard.is_held() && guard.deadline() != before);
    let token = guard.token();
    assert_eq!(guard.release().await.expect("an answer"), Release::Released);
    let next = served(waiting).await;
    assert!(next.token() > token);
    assert_eq!(next.release().await.expect("an answer"), Release::Released);
}

/// A member that is stopped takes no part; the client turns to another within a request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_member_is_left_for_another() {
    let cluster = EtcdServer::start_cluster(3).await;
    let leader = cluster.leader().await;
    let follower = (leader + 1) % 3;
    // The follower is named first, and so asked first.
    let addresses = [follower, leader].map(|number| cluster.members()[number].addr().to_string());
    let url = format!("etcd://{}/", addresses.join(","));
    let (holder, waiter, name) = (client(&url).await, client(&url).await, fresh_name());
    let ttl = Duration::from_secs(5);
    let guard = holder.acquire(patient(&name).ttl(ttl)).await.expect("a free lock");
    let waiting = queue(&waiter, &holder, patient(&name), &name).await;
    cluster.members()[follower].stop();
    let before = guard.deadline();
    eventually("it is renewed", LIMIT, async || guard.deadline() != before).await;
    assert!(guard.is_held());
    let released = Instant::now();
    guard.release().await.expect("an answer");
    let next = served(waiting).await;
    let took = released.elapsed();
    assert!(took < Duration::from_secs(3) + SLACK, "served after {took:?}");
    next.release().await.expect("an answer");
    cluster.members()[follower].cont();
}

/// C8, C9: a server that stops under a holder is noticed by the deadline.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c09_a_server_that_stops_under_a_holder_is_noticed_by_the_deadline() {
    let server = EtcdServer::start().await;
    let (client, ttl) = (client(&server.url()).await, Duration::from_secs(2));
    let guard = client.acquire(patient(&fresh_name()).ttl(ttl)).await.expect("a free lock");
    server.stop();
    let stopped = Instant::now();
    let reason = timeout(LIMIT, guard.lost()).await.expect("the loss is told");
    assert_eq!(reason, LostReason::Expired);
    let took = stopped.elapsed();
    assert!(took < ttl + Duration::from_millis(50) + SLACK, "noticed after {took:?}");
    server.cont();
}

/// C8: a hold that ends behind its holder's back is told by the watch, long before a renewal would
/// tell: its lease revoked, or its key deleted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c08_a_watch_tells_of_a_loss_at_once() {
    let server = one_member().await;
    let client = client(&server.url()).await;
    for revoke in [true, false] {
        let name = fresh_name();
        let guard = client.acquire(patient(&name)).await.expect("a free lock");
        let key = claims(server, &name).pop().expect("a key");
        let ended = Instant::now();
        if revoke {
            server.ctl(&["lease", "revoke", &lease_of(server, &key)]);
        } else {
            server.ctl(&["del", &key]);
        }
        let reason = timeout(LIMIT, guard.lost()).await.expect("the loss is told");
        assert_eq!(reason, LostReason::Evicted);
        let took = ended.elapsed();
        assert!(took < Duration::from_secs(1) + SLACK, "told after {took:?} of {MINUTE:?}");
    }
}

/// The lease on a key, as `etcdctl` writes it.
fn lease_of(server: &EtcdServer, key: &str) -> String {
    let fields = server.ctl(&["get", key, "-w", "fields"]);
    let lease = fields.lines().find_map(|line| line.strip_prefix("\"Lease\" : "));
    format!("{:x}", lease.expect("a lease").trim().parse::<i64>().expect("a number"))
}

/// C8: a watch whose stream was cut is opened again, and what happened meanwhile is found.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c08_a_cut_stream_is_opened_again_and_what_was_missed_is_read() {
    let server = one_member().await;
    let proxy = Proxy::start(server.addr()).await;
    let client = client(&format!("etcd://{}/", proxy.addr())).await;
    let name = fresh_name();
    let guard = client.acquire(patient(&name)).await.expect("a free lock");
    let key = claims(server, &name).pop().expect("a key");
    for missed in [false, true] {
        if missed {
            proxy.set(Mode::Refuse);
            proxy.cut();
            server.ctl(&["del", &key]);
            proxy.set(Mode::Pass);
        } else {
            proxy.cut();
            assert!(timeout(Duration::from_millis(500), guard.lost()).await.is_err(), "lost");
        }
    }
    let reason = timeout(Duration::from_secs(5), guard.lost()).await.expect("the loss is told");
    assert_eq!(reason, LostReason::Evicted);
}

/// C28: a waiter whose stream was cut gets in all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_a_cut_stream_costs_a_waiter_at_most_a_poll() {
    let server = one_member().await;
    let proxy = Proxy::start(server.addr()).await;
    let (holder, waiter) =
        (client(&server.url()).await, client(&format!("etcd://{}/", proxy.addr())).await);
    for _ in 0..3 {
        let name = fresh_name();
        let guard = holder.acquire(patient(&name)).await.expect("a free lock");
        let waiting = queue(&waiter, &holder, patient(&name), &name).await;
        proxy.cut();
        let released = Instant::now();
        guard.release().await.expect("an answer");
        served(waiting).await.release().await.expect("an answer");
        let took = released.elapsed();
        assert!(took < Duration::from_secs(2) + SLACK, "served after {took:?}");
    }
}

/// C27: a waiter that leaves the middle of the queue lets nobody in: the next one looks, and watches
/// whoever is before it now.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c27_a_waiter_that_leaves_lets_nobody_in() {
    let server = one_member().await;
    let (holder, leaver) = (client(&server.url()).await, client(&server.url()).await);
    let (waiter, name) = (client(&server.url()).await, fresh_name());
    let guard = holder.acquire(patient(&name)).await.expect("a free lock");
    let leaving = queue(&leaver, &holder, patient(&name), &name).await;
    let request = patient(&name);
    let waiting = tokio::spawn(async move { waiter.acquire(request).await });
    eventually("both queue", LIMIT, async || claims(server, &name).len() == 3).await;
    leaving.abort();
    eventually("one has left", LIMIT, async || claims(server, &name).len() == 2).await;
    // The one who waits on looks within milliseconds.
    assert!(timeout(SLACK, guard.lost()).await.is_err() && !waiting.is_finished(), "two holders");
    guard.release().await.expect("an answer");
    served(waiting).await.release().await.expect("an answer");
}

/// etcd#11456, etcd#19597: a waiter whose lease ended is never told that it holds; it queues anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_lease_ended_does_not_hold() {
    let server = one_member().await;
    let (holder, waiter) = (client(&server.url()).await, client(&server.url()).await);
    let name = fresh_name();
    let guard = holder.acquire(patient(&name)).await.expect("a free lock");
    let waiting = queue(&waiter, &holder, patient(&name), &name).await;
    for _ in 0..3 {
        let place = claims(server, &name).pop().expect("a place");
        server.ctl(&["lease", "revoke", &lease_of(server, &place)]);
        assert!(!waiting.is_finished(), "told that it holds");
        // The same owner, at the end of the queue again.
        eventually("it queues anew", LIMIT, async || claims(server, &name).len() == 2).await;
    }
    let token = guard.token();
    guard.release().await.expect("an answer");
    let next = served(waiting).await;
    let held = holder.inspect(&name).await.expect("an answer").holder.expect("held");
    assert_eq!(held.token, Some(next.token()));
    assert!(next.token() > token && next.is_held());
    next.release().await.expect("an answer");
}

/// As above, but nobody can tell the waiter: it is cut off until its lease is over, and the lock is
/// free meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_was_cut_off_does_not_believe_in_its_old_place() {
    let server = one_member().await;
    let proxy = Proxy::start(server.addr()).await;
    let (holder, waiter) =
        (client(&server.url()).await, client(&format!("etcd://{}/", proxy.addr())).await);
    let name = fresh_name();
    let guard = holder.acquire(patient(&name)).await.expect("a free lock");
    let waiting = queue(&waiter, &holder, patient(&name).wait(Wait::Forever), &name).await;
    proxy.set(Mode::BlackHole);
    eventually("its place is gone", LIMIT, async || claims(server, &name).len() == 1).await;
    guard.release().await.expect("an answer");
    let other = holder.acquire(patient(&name)).await.expect("it is free");
    // What was swallowed is delivered late, as after a partition.
    proxy.set(Mode::Pass);
    eventually("it queues anew", LIMIT, async || claims(server, &name).len() == 2).await;
    assert!(other.is_held() && !waiting.is_finished(), "two holders");
    other.release().await.expect("an answer");
    served(waiting).await.release().await.expect("an answer");
}

/// C15, C19: whose reply was lost, is taken back: at once, though the TTL is a minute.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c19_an_acquire_whose_reply_was_lost_is_taken_back() {
    let server = EtcdServer::start().await;
    let proxy = Proxy::start(server.addr()).await;
    let (client, name) = (client(&format!("etcd://{}/", proxy.addr())).await, fresh_name());
    // A lease is in stock from here on, so that one request is enough.
    let stock = client.acquire(patient(&fresh_name())).await.expect("a free lock");
    stock.release().await.expect("an answer");
    let before = revision(&server);
    proxy.set(Mode::SwallowReplies);
    let failed = client.acquire(LockRequest::new(&name).ttl(MINUTE).wait(Wait::No)).await;
    let Err(LockError::Backend { source, .. }) = failed else {
        panic!("no reply came through, and we were told {failed:?}");
    };
    assert_eq!(source.outcome(), leasehold::Outcome::Unknown);
    assert!(revision(&server) > before, "the request was to be applied");
    proxy.set(Mode::Pass);
    proxy.cut();
    eventually("the lock is free", LIMIT, async || claims(&server, &name).is_empty()).await;
}

/// C19: a stopped server applies what was sent to it before it hears that the sender gave up; the
/// request of a claim that was withdrawn meanwhile must not take the lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c19_a_ghost_of_a_stopped_server_takes_nothing() {
    let server = EtcdServer::start().await;
    let client = client(&server.url()).await;
    let names: Vec<String> = (0..20).map(|_| fresh_name()).collect();
    // Leases are in stock, so that the requests that take the lock are those that are lost.
    let stock = names.iter().map(|_| client.acquire(patient("stock").wait(Wait::No)));
    drop(futures_util::future::join_all(stock).await);
    server.stop();
    let acquiring = names
        .iter()
        .map(|name| client.acquire(LockRequest::new(name).ttl(MINUTE).wait(Wait::AtMost(SLACK))));
    for failed in futures_util::future::join_all(acquiring).await {
        assert!(failed.is_err(), "{failed:?} from a stopped server");
    }
    server.cont();
    client.shutdown().await;
    let locks = server.ctl(&["get", "--prefix", "leasehold/locks/", "--keys-only"]);
    assert_eq!(locks.trim(), "");
}

/// C19: requests that a network held back arrive after their claims were withdrawn over another
/// connection: the server refuses them, since their leases are gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c19_a_request_that_comes_after_its_withdrawal_takes_nothing() {
    let server = EtcdServer::start().await;
    let proxy = Proxy::start(server.addr()).await;
    let client = client(&format!("etcd://{}/", proxy.addr())).await;
    let names: Vec<String> = (0..20).map(|_| fresh_name()).collect();
    let stock = names.iter().map(|_| client.acquire(patient("stock").wait(Wait::No)));
    drop(futures_util::future::join_all(stock).await);
    client.acquire(patient("stock")).await.expect("free").release().await.expect("an answer");
    proxy.set_existing(Mode::BlackHole);
    let acquiring = names.iter().map(|name| {
        client.acquire(LockRequest::new(name).ttl(MINUTE).wait(Wait::AtMost(SLACK * 2)))
    });
    drop(futures_util::future::join_all(acquiring).await);
    client.shutdown().await;
    proxy.set_existing(Mode::Pass);
    let end = Instant::now() + SLACK * 4;
    while Instant::now() < end {
        let locks = server.ctl(&["get", "--prefix", "leasehold/locks/", "--keys-only"]);
        assert_eq!(locks.trim(), "", "a ghost took the lock");
    }
}

/// C22: a restart keeps the lock, and its token goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_hold_and_its_token_survive_a_restart() {
    let mut server = EtcdServer::start().await;
    let (client, name) = (client(&server.url()).await, fresh_name());
    let guard = client.acquire(patient(&name)).await.expect("a free lock");
    server.kill();
    server.restart().await;
    let holder = client.inspect(&name).await.expect("an answer").holder.expect("held");
    assert_eq!(holder.token, Some(guard.token()));
    guard.extend(MINUTE).await.expect("still held");
    let token = guard.token();
    guard.release().await.expect("an answer");
    let next = client.acquire(patient(&name)).await.expect("it is free");
    assert!(next.token() > token);
}

/// A server without space takes no lock and says so; what is held can be released.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_space_says_so_and_takes_no_lock() {
    let server = EtcdServer::start_with(&["--quota-backend-bytes", "150000"]).await;
    let client = client(&server.url()).await;
    let name = fresh_name();
    let guard = client.acquire(patient(&name)).await.expect("a free lock");
    let filler = "x".repeat(60_000);
    while server.try_ctl(&["put", "filler", &filler]).is_ok() {}
    let refused = client.acquire(LockRequest::new(fresh_name()).wait(Wait::No)).await;
    let Err(LockError::Backend { source, .. }) = refused else { panic!("{refused:?}") };
    assert!(source.to_string().contains("space"), "{source}");
    assert_eq!(guard.release().await.expect("an answer"), Release::Released);
    let findings = client.doctor().await.expect("an answer");
    assert!(findings.iter().any(|finding| finding.to_string().contains("NOSPACE")), "{findings:?}");
}
