//! Sessions: their length, and holds that move between them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold::core::backend::{Attempt, Extension, Renewal};
use leasehold::core::{Lease, Ttl};
use leasehold::zookeeper::ZooKeeperBackend;
use leasehold::{DistributedLock, LockClient, LockGuard, LockRequest, connect};
use lock_testkit::{LeaseExt as _, ZooKeeperServer};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, sleep};
use zookeeper_client::{Acls, Client, CreateMode};

use crate::servers::{SHORT_TTL, one_member};
use crate::support::{
    MINUTE, SLACK, client, fresh_name, held, holder_of, patient, refusal, released, served,
    served_within, shown, steps_of_the_servers_clock, until_waiting,
};

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
}

/// Leases a lock by a client on its own runtime. Dropping the runtime ends its sessions' keep-alive, like the
/// death of a process.
async fn leased_by_the_dead(url: String, name: String) -> (Runtime, LockClient, Lease) {
    let runtime = runtime();
    let leased = runtime.spawn(async move {
        let client = connect(&url).await.expect("a client");
        let guard = client.acquire(LockRequest::new(name).ttl(SHORT_TTL)).await;
        let lease = guard.expect("a free lock").detach().expect("held");
        (client, lease)
    });
    let (client, lease) = leased.await.expect("no panic");
    (runtime, client, lease)
}

/// C28: the hold of a dead client ends with its session, a third after its TTL, and not before the TTL.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_a_hold_whose_client_died_ends_with_its_session() {
    let (server, name) = (one_member().await, fresh_name());
    let next = connect(&server.url()).await.expect("a client");
    let asked = Instant::now();
    let (runtime, dead, died) = leased_by_the_dead(server.url(), name.clone()).await;
    runtime.shutdown_background();
    let gone = Instant::now();
    let guard = next.acquire(patient(&name)).await.expect("its turn comes");
    assert!(asked.elapsed() >= SHORT_TTL, "no sooner than the TTL");
    let (took, bound) = (gone.elapsed(), SHORT_TTL * 4 / 3 + Duration::from_secs(1) + SLACK);
    assert!(took < bound, "the session is to be over within {bound:?}: {took:?}");
    assert!(guard.token() > died.token());
    released(guard).await;
    drop(dead);
}

/// C28: waiters whose clients died are passed over within 3 s of their turns, even if their sessions last longer, and
/// the waiters behind them keep their order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_a_dead_waiter_costs_the_bound_and_not_its_session() {
    let name = fresh_name();
    let guard = held(&client(&one_member().await.url()).await, &name).await;
    two_of_four_waiters_die(guard, &patient(&name)).await;
}

/// C28: so are waiters for permits, also while another hold goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_dead_waiters_for_permits_cost_the_bound_and_not_their_sessions() {
    let (holder, name) = (client(&one_member().await.url()).await, fresh_name());
    let permit = patient(&name).permits(1, 2);
    let beside = holder.acquire(permit.clone()).await.expect("a free permit");
    let guard = holder.acquire(permit.clone()).await.expect("a free permit");
    two_of_four_waiters_die(guard, &permit).await;
    released(beside).await;
}

/// Lets four clients wait for the lock of `guard`. The first two die, and the others are served in time.
async fn two_of_four_waiters_die(guard: LockGuard, request: &LockRequest) {
    let url = one_member().await.url();
    let (observer, name) = (client(&url).await, guard.name().as_str().to_owned());
    let (runtime, mut clients, mut waiting) = (runtime(), Vec::new(), Vec::new());
    for count in 1..=4 {
        let (client, request) = (client(&url).await, request.clone());
        clients.push(client.clone());
        let waits = async move { client.acquire(request).await };
        match count {
            1 | 2 => drop(runtime.spawn(waits)),
            _ => waiting.push(tokio::spawn(waits)),
        }
        until_waiting(&observer, &name, count).await;
    }
    runtime.shutdown_background();
    let (last, next) = (waiting.pop().expect("two"), waiting.pop().expect("two"));
    served_within(2 * Duration::from_secs(3) + SLACK, guard, next).await;
    released(served(last).await).await;
}

/// C36: an attached lease is on a session of its new client: it outlives the first client.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c36_an_attached_lease_outlives_its_first_client() {
    let (server, name) = (one_member().await, fresh_name());
    let second = connect(&server.url()).await.expect("a client");
    let (runtime, dead, lease) = leased_by_the_dead(server.url(), name.clone()).await;
    let token = lease.token();
    let guard = second.attach(lease).await.expect("it is held");
    runtime.shutdown_background();
    sleep(SHORT_TTL * 3).await;
    assert!(guard.is_held(), "the second client is to keep it: {:?}", guard.lost_signal());
    let observer = connect(&server.url()).await.expect("a client");
    assert_eq!(holder_of(&observer, &name).await.token, Some(token), "with its token");
    released(guard).await;
    drop(dead);
}

/// C4: a TTL that is too long or short for the server's sessions is refused, with the reason.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c04_a_ttl_beyond_the_longest_session_is_refused() {
    let server = ZooKeeperServer::start_with(&["maxSessionTimeout=8000"]).await;
    let client = connect(&server.url()).await.expect("a client");
    let long = LockRequest::new("a").ttl(Duration::from_millis(6_001));
    let refused = client.acquire(long).await.expect_err("too long").to_string();
    assert!(refused.contains("too long") && refused.contains("maxSessionTimeout"), "{refused}");
    let most = LockRequest::new("a").ttl(Duration::from_secs(5));
    released(client.acquire(most).await.expect("a free lock")).await;
}

/// C4: TTLs share sessions by steps, so that many TTLs need few connections. A grant has the TTL that was asked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c04_many_ttls_share_few_connections() {
    let settings = ["maxClientCnxns=12", "maxSessionTimeout=40000"];
    let server = ZooKeeperServer::start_with(&settings).await;
    let backend = ZooKeeperBackend::connect(&server.url()).await.expect("a connection");
    for number in 1..=80 {
        let ttl = Duration::from_millis(375) * number;
        let claim = LockRequest::new(fresh_name()).ttl(ttl).claim().expect("a good claim");
        let granted = backend.acquire(&claim, None).await.expect("a connection");
        let Attempt::Granted(grant) = granted else { panic!("{granted:?}") };
        assert_eq!(grant.ttl, ttl);
    }
}

/// C15: a server that takes no more connections of a host.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c15_a_connection_too_many_names_the_limit() {
    let server = ZooKeeperServer::start_with(&["maxClientCnxns=2"]).await;
    let client = client(&server.url()).await;
    let _held = held(&client, "a").await;
    let longer = LockRequest::new("b").ttl(MINUTE * 2);
    let refused = shown(&client.try_acquire(longer).await.expect_err("a third connection"));
    assert!(refused.contains("whose others stand") && refused.contains("maxClientCnxns"));
    let refused = refusal(&server.url()).await;
    assert!(refused.contains("maxClientCnxns"), "{refused}");
}

/// C41: so is such a span of a run, before its work begins, and the lock is free again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c41_a_span_beyond_the_longest_session_is_refused() {
    let server = ZooKeeperServer::start_with(&["maxSessionTimeout=8000"]).await;
    let client = connect(&server.url()).await.expect("a client");
    let long = client.once("a").ttl(Duration::from_secs(5)).at_least(Duration::from_secs(60));
    let refused = long.run(async |_| panic!("the work is not to begin")).await;
    let refused = refused.expect_err("too long").to_string();
    assert!(refused.contains("maxSessionTimeout"), "{refused}");
    released(client.acquire(LockRequest::new("a").ttl(SHORT_TTL)).await.expect("a free lock"))
        .await;
}

/// C41: a span may be as long as the longest session allows, also between two seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c41_a_span_of_the_longest_session_is_kept() {
    let server = ZooKeeperServer::start_with(&["maxSessionTimeout=10000"]).await;
    let backend = ZooKeeperBackend::connect(&server.url()).await.expect("a connection");
    let lease = backend.acquire_lease(&LockRequest::new("a").ttl(SHORT_TTL)).await;
    let lease = lease.expect("a free lock");
    let most = Ttl::new(Duration::from_millis(7_450)).expect("a good TTL");
    let kept = backend.extend(&[Renewal::new(&lease, most)]).await;
    assert!(matches!(kept[..], [Ok(Extension::Extended(_))]), "{kept:?}");
    let next = LockRequest::new("a").ttl(SHORT_TTL).claim().expect("a good claim");
    let busy = backend.acquire(&next, None).await.expect("an answer");
    assert!(matches!(busy, Attempt::Busy(_)), "{busy:?}");
}

/// C45: observers see the time of the grant by the server's clock, also after the hold has moved to another session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c45_since_is_told_by_the_servers_clock() {
    let server = ZooKeeperServer::start_with_clock().await;
    let Some(clock) = server.clock() else { return };
    clock.set_forward(Duration::from_secs(3600));
    let backend = ZooKeeperBackend::connect(&server.url()).await.expect("a connection");
    let lease = backend.acquire_lease(&LockRequest::new("a").ttl(SHORT_TTL)).await;
    let lease = lease.expect("a free lock");
    let admin = backend.admin().expect("it lists locks");
    let since = async || {
        let state = admin.inspect(lease.name()).await.expect("an answer");
        state.holder().and_then(|holder| holder.since).expect("a time")
    };
    let first = since().await;
    assert!(first > SystemTime::now() + Duration::from_secs(1800), "{first:?}");
    let longer = [Renewal::new(&lease, Ttl::new(MINUTE).expect("a TTL"))];
    let extended = backend.extend(&longer).await.pop().expect("one answer");
    assert_eq!(extended.expect("an answer"), Extension::Extended(MINUTE));
    assert_eq!(since().await, first);
}

/// P1, P2: the server measures sessions by another clock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_no_hold_ends_though_the_servers_clock_is_set() {
    let server = ZooKeeperServer::start_with_clock().await;
    let Some(clock) = server.clock() else { return };
    steps_of_the_servers_clock(&server.url(), Some(clock.clone()), false).await;
    clock.set_forward(Duration::from_secs(3600));
    let soon = SystemTime::now() + Duration::from_secs(1800);
    let operator = Client::connect(&server.addr().to_string()).await.expect("a connection");
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    let (probe, _) = operator.create("/probe", &[], &options).await.expect("a node");
    let soon = soon.duration_since(UNIX_EPOCH).expect("after 1970");
    assert!(probe.ctime as u128 > soon.as_millis(), "the server's clock was not set: {probe:?}");
}
