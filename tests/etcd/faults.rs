//! Dead, stopped and silent members, changes of the leader, and broken streams.

use std::time::{Duration, Instant};

use leasehold::core::LockAdmin;
use leasehold::core::backend::{Attempt, FALLBACK_POLL, WAITER_LIVENESS, WaiterHandle};
use leasehold::etcd::EtcdBackend;
use leasehold::{DistributedLock, LockError, LockRequest, LostReason, Outcome, Wait};
use lock_testkit::{EtcdCluster, EtcdServer, Mode, Proxy, eventually};
use tokio::time::{sleep, timeout};

use crate::members::member_in_use;
use crate::servers::{EtcdFaults, SHORTEST_TTL, claims, one_member, url_at};
use crate::support::{
    LIMIT, MINUTE, REQUEST_TIMEOUT, SLACK, acquiring, client, client_through,
    every_call_fails_in_time, fresh_name, held, holder_of, impatient, patient, queued, released,
    renewed, served, served_within, turn,
};

lock_testkit::test_faults!(EtcdFaults);

/// C15, C17: without a majority every call fails in time, with an error that names the reason, and a holder stops
/// believing at its deadline. With a majority, locks work again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c17_without_a_majority_every_call_fails_in_time() {
    let mut cluster = EtcdServer::start_cluster(3).await;
    let client = impatient(&cluster.url()).await;
    let guard = held(&client, &fresh_name()).await;
    let ttl = Duration::from_secs(3);
    let doomed = client.acquire(patient(&fresh_name()).ttl(ttl)).await.expect("a free lock");
    let leader = cluster.leader().await;
    let other = (leader + 1) % 3;
    cluster.member(leader).kill();
    cluster.member(other).kill();
    let killed = Instant::now();
    every_call_fails_in_time::<EtcdFaults>(&client, guard).await;
    let reason = timeout(LIMIT, doomed.lost()).await.expect("the loss is told");
    assert_eq!(reason, LostReason::Expired);
    let took = killed.elapsed();
    // The calls above take some of this time.
    assert!(took < ttl + REQUEST_TIMEOUT * 7 + SLACK, "noticed after {took:?}");
    cluster.member(leader).restart().await;
    turn(&client, &fresh_name()).await;
}

/// L1: a cluster that changes its leader, in order or by a death, keeps holds and waiters.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_and_a_waiter_outlive_their_leader() {
    let mut cluster = EtcdServer::start_cluster(3).await;
    let url = cluster.url();
    let (holder, waiter) = (client(&url).await, client(&url).await);
    let name = fresh_name();
    let guard = held(&holder, &name).await;
    let waiting = queued(&waiter, &holder, patient(&name), &name).await;
    cluster.move_leader().await;
    let (dies, before) = (cluster.leader().await, guard.deadline());
    cluster.member(dies).kill();
    eventually("held, after an election", LIMIT, async || guard.extend(MINUTE).await.is_ok()).await;
    assert!(guard.is_held() && guard.deadline() != before);
    let token = guard.token();
    released(guard).await;
    let next = served(waiting).await;
    assert!(next.token() > token);
    released(next).await;
}

/// Returns the URL of the members that do not lead: a stop of one of them costs the cluster no election.
pub(crate) async fn followers_of(cluster: &EtcdCluster) -> String {
    let leader = cluster.leader().await;
    let followers = (1..3).map(|next| cluster.members()[(leader + next) % 3].addr().to_string());
    format!("etcd://{}/", followers.collect::<Vec<_>>().join(","))
}

/// A stopped member is not used; the client turns to another within a request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_member_is_left_for_another() {
    let cluster = EtcdServer::start_cluster(3).await;
    let url = followers_of(&cluster).await;
    let (holder, waiter, name) = (impatient(&url).await, impatient(&url).await, fresh_name());
    let ttl = Duration::from_secs(9);
    let guard = holder.acquire(patient(&name).ttl(ttl)).await.expect("a free lock");
    let stopped = member_in_use(&cluster).await;
    let waiting = queued(&waiter, &holder, patient(&name), &name).await;
    cluster.members()[stopped].stop();
    renewed(&guard).await;
    served_within(Duration::from_secs(3) + SLACK, guard, waiting).await;
    cluster.members()[stopped].cont();
}

/// C8: the watch reports a hold that was ended without its holder, long before a renewal would: after a revocation of
/// its lease, or a deletion of its key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c08_a_watch_tells_of_a_loss_at_once() {
    let server = one_member().await;
    let client = client(&server.url()).await;
    for revoke in [true, false] {
        let name = fresh_name();
        let guard = held(&client, &name).await;
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

/// Returns the lease of a key, as `etcdctl` writes it.
pub(crate) fn lease_of(server: &EtcdServer, key: &str) -> String {
    let fields = server.ctl(&["get", key, "-w", "fields"]);
    let lease = fields.lines().find_map(|line| line.strip_prefix("\"Lease\" : "));
    format!("{:x}", lease.expect("a lease").trim().parse::<i64>().expect("a number"))
}

/// C8: a watch with a cut stream is opened again, and events of the meantime are found.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c08_a_cut_stream_is_opened_again_and_what_was_missed_is_read() {
    let server = one_member().await;
    let proxy = Proxy::start(server.addr()).await;
    let client = client_through::<EtcdFaults>(&proxy).await;
    let name = fresh_name();
    let guard = held(&client, &name).await;
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

/// C27: a waiter that leaves the middle of the queue lets nobody in. The waiter behind it looks, and watches the
/// claim that is then before its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c27_a_waiter_that_leaves_lets_nobody_in() {
    let server = one_member().await;
    let (holder, leaver) = (client(&server.url()).await, client(&server.url()).await);
    let (waiter, name) = (client(&server.url()).await, fresh_name());
    let guard = held(&holder, &name).await;
    let leaving = queued(&leaver, &holder, patient(&name), &name).await;
    let waiting = acquiring(&waiter, patient(&name));
    eventually("both queue", LIMIT, async || claims(server, &name).len() == 3).await;
    leaving.abort();
    eventually("one has left", LIMIT, async || claims(server, &name).len() == 2).await;
    // The other waiter looks within milliseconds.
    assert!(timeout(SLACK, guard.lost()).await.is_err() && !waiting.is_finished(), "two holders");
    released(guard).await;
    released(served(waiting).await).await;
}

/// etcd#11456, etcd#19597: a waiter whose lease has ended is never granted the lock; it queues again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_lease_ended_does_not_hold() {
    let server = one_member().await;
    let (holder, waiter) = (client(&server.url()).await, client(&server.url()).await);
    let name = fresh_name();
    let guard = held(&holder, &name).await;
    let waiting = queued(&waiter, &holder, patient(&name), &name).await;
    for _ in 0..3 {
        let place = claims(server, &name).pop().expect("a place");
        server.ctl(&["lease", "revoke", &lease_of(server, &place)]);
        assert!(!waiting.is_finished(), "told that it holds");
        // The same owner is at the end of the queue again.
        eventually("it queues anew", LIMIT, async || claims(server, &name).len() == 2).await;
    }
    let token = guard.token();
    released(guard).await;
    let next = served(waiting).await;
    assert_eq!(holder_of(&holder, &name).await.token, Some(next.token()));
    assert!(next.token() > token && next.is_held());
    released(next).await;
}

/// The same test, but the waiter is cut off until its lease is over, and the lock is free meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_was_cut_off_does_not_believe_in_its_old_place() {
    let server = one_member().await;
    let proxy = Proxy::start(server.addr()).await;
    let (holder, waiter) =
        (client(&server.url()).await, client_through::<EtcdFaults>(&proxy).await);
    let name = fresh_name();
    let guard = held(&holder, &name).await;
    let request = patient(&name).ttl(SHORTEST_TTL).wait(Wait::Forever);
    let waiting = queued(&waiter, &holder, request, &name).await;
    proxy.set(Mode::BlackHole);
    eventually("its place is gone", LIMIT, async || claims(server, &name).len() == 1).await;
    released(guard).await;
    let other = held(&holder, &name).await;
    // The swallowed requests are delivered late, as after a partition.
    proxy.set(Mode::Pass);
    eventually("it queues anew", LIMIT, async || claims(server, &name).len() == 2).await;
    assert!(other.is_held() && !waiting.is_finished(), "two holders");
    released(other).await;
    released(served(waiting).await).await;
}

/// A server without space grants no lock and reports it; held locks can be released.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_space_says_so_and_takes_no_lock() {
    let server = EtcdServer::start_with(&["--quota-backend-bytes", "150000"]).await;
    let client = client(&server.url()).await;
    let name = fresh_name();
    let guard = held(&client, &name).await;
    let filler = "x".repeat(60_000);
    while server.try_ctl(&["put", "filler", &filler]).is_ok() {}
    let refused = client.acquire(LockRequest::new(fresh_name()).wait(Wait::Never)).await;
    let Err(LockError::Backend { source, .. }) = refused else { panic!("{refused:?}") };
    assert!(source.to_string().contains("space"), "{source}");
    // C15: the request that crosses the quota is carried out, and refused only then.
    assert_eq!(source.outcome(), Outcome::Unknown);
    released(guard).await;
    let findings = client.admin().doctor().await.expect("an answer");
    assert!(findings.iter().any(|finding| finding.to_string().contains("NOSPACE")), "{findings:?}");
}

/// C28: a look of waiters leaves a connection that has swallowed it, once another request has given that connection up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_a_look_leaves_a_connection_that_was_given_up() {
    let server = one_member().await;
    let proxy = Proxy::start(server.addr()).await;
    let lock = EtcdBackend::connect(&url_at(proxy.addr())).await.expect("a connection");
    let (holder, name) = (client(&server.url()).await, fresh_name());
    let guard = held(&holder, &name).await;
    let claim = patient(&name).claim().expect("a good claim");
    let (waiter, _events) = WaiterHandle::channel();
    let waits = lock.acquire(&claim, Some(&waiter)).await;
    assert!(matches!(waits, Ok(Attempt::Busy(_))), "{waits:?}");
    proxy.set_existing(Mode::BlackHole);
    // The last answer is repeated until then.
    sleep(FALLBACK_POLL).await;
    let (looks, asked) = (lock.clone(), claim.clone());
    let looks = tokio::spawn(async move { looks.acquire(&asked, Some(&waiter)).await });
    // After such a long silence of a caller, the client turns to another connection.
    let left = timeout(Duration::from_millis(400), lock.inspect(&claim.name)).await;
    assert!(left.is_err(), "the connection is dead");
    let seen = timeout(WAITER_LIVENESS + SLACK, looks).await.expect("it looks again");
    assert!(matches!(seen.expect("no panic"), Ok(Attempt::Busy(_))));
    lock.withdraw(&claim.name, &[claim.owner]).await.expect("an answer");
    released(guard).await;
}
