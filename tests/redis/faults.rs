//! Dead, stopped, deaf and dumb servers, and networks that swallow.

use std::time::{Duration, Instant};

use leasehold::{LockClient, LockError, LockRequest, LostReason, Release, Wait};
use test_support::{Mode, Proxy, RedisServer, Reply, eventually};
use tokio::time::timeout;

use crate::{LIMIT, MINUTE, REQUEST_TIMEOUT, SLACK, client, fresh_name, patient};

/// Until nobody holds `name`, as a foreign client sees it.
async fn until_free(server: &RedisServer, name: &str) {
    eventually("the lock is free", LIMIT, async || {
        server.cli(&["EXISTS", name]) == Reply::Integer(0)
    })
    .await;
}

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

async fn every_call_fails_in_time(client: &LockClient, held: leasehold::LockGuard) {
    let name = fresh_name();
    let request = |wait| LockRequest::new(&name).ttl(MINUTE).wait(wait);
    let short = Duration::from_millis(300);
    fails_in_time(short, client.acquire(request(Wait::AtMost(short)))).await;
    fails_in_time(REQUEST_TIMEOUT, client.acquire(request(Wait::No))).await;
    fails_in_time(REQUEST_TIMEOUT, client.inspect(&name)).await;
    fails_in_time(REQUEST_TIMEOUT, client.list("", 9)).await;
    fails_in_time(REQUEST_TIMEOUT, held.extend(MINUTE)).await;
    fails_in_time(REQUEST_TIMEOUT, held.release()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c17_a_stopped_server_delays_no_call_beyond_its_time_out() {
    let server = RedisServer::start().await;
    let client = client(&server.url()).await;
    let guard = client.acquire(patient(&fresh_name())).await.expect("a free lock");
    server.stop();
    every_call_fails_in_time(&client, guard).await;
    server.cont();
    drop(client.acquire(patient(&fresh_name())).await.expect("it goes on"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c17_a_dead_server_delays_no_call_beyond_its_time_out() {
    let mut server = RedisServer::start().await;
    let client = client(&server.url()).await;
    let guard = client.acquire(patient(&fresh_name())).await.expect("a free lock");
    server.kill();
    every_call_fails_in_time(&client, guard).await;
    server.restart().await;
    drop(client.acquire(patient(&fresh_name())).await.expect("it goes on"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c17_a_black_hole_delays_no_call_beyond_its_time_out() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.addr()).await;
    let client = client(&proxy.url()).await;
    let guard = client.acquire(patient(&fresh_name())).await.expect("a free lock");
    proxy.set(Mode::BlackHole);
    every_call_fails_in_time(&client, guard).await;
    proxy.set(Mode::Pass);
    drop(client.acquire(patient(&fresh_name())).await.expect("it goes on"));
}

/// C8, C9: a server that stops under a holder is noticed by the deadline.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c09_a_server_that_stops_under_a_holder_is_noticed_by_the_deadline() {
    let server = RedisServer::start().await;
    let (client, ttl) = (client(&server.url()).await, Duration::from_millis(1500));
    let guard = client.acquire(patient(&fresh_name()).ttl(ttl)).await.expect("a free lock");
    server.stop();
    let stopped = Instant::now();
    let reason = timeout(LIMIT, guard.lost()).await.expect("the loss is told");
    assert_eq!(reason, LostReason::Expired);
    let took = stopped.elapsed();
    assert!(took < ttl + Duration::from_millis(50) + SLACK, "noticed after {took:?}");
    server.cont();
}

/// A pause of the server that is shorter than the TTL costs nobody the lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c08_a_short_pause_of_the_server_is_no_loss() {
    let server = RedisServer::start().await;
    let (client, ttl) = (client(&server.url()).await, Duration::from_secs(3));
    let guard = client.acquire(patient(&fresh_name()).ttl(ttl)).await.expect("a free lock");
    let before = guard.deadline();
    server.stop();
    tokio::time::sleep(ttl / 2).await;
    server.cont();
    eventually("it is renewed", LIMIT, async || guard.deadline() != before).await;
    assert_eq!(guard.release().await.expect("an answer"), Release::Released);
}

/// A connection that swallows everything is given up, since a new one works.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_swallowing_connection_is_replaced_while_the_lock_is_held() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.addr()).await;
    let (client, ttl) = (client(&proxy.url()).await, Duration::from_secs(2));
    let guard = client.acquire(patient(&fresh_name()).ttl(ttl)).await.expect("a free lock");
    for mode in [Mode::BlackHole, Mode::SwallowReplies, Mode::SwallowRequests] {
        proxy.set_existing(mode);
        let before = guard.deadline();
        eventually("it is renewed", LIMIT, async || guard.deadline() != before).await;
        assert!(guard.is_held(), "lost behind {mode:?}");
    }
    assert_eq!(guard.release().await.expect("an answer"), Release::Released);
}

/// A server that closes idle connections, as `timeout 1` makes it, is no error to the next call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_was_closed_while_idle_is_no_error() {
    let server = RedisServer::start().await;
    let client = client(&server.url()).await;
    client.acquire(patient(&fresh_name())).await.expect("free").release().await.expect("an answer");
    server.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
    let guard = client.try_acquire(patient(&fresh_name())).await.expect("no error").expect("free");
    server.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
    assert_eq!(guard.release().await.expect("an answer"), Release::Released);
}

/// C15, C19: whose reply was lost, is taken back: at once, though the TTL is a minute.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c19_an_acquire_whose_reply_was_lost_is_taken_back() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.addr()).await;
    let (client, name) = (client(&proxy.url()).await, fresh_name());
    // The server knows the scripts from here on, so that one request is enough.
    drop(client.acquire(patient(&fresh_name())).await.expect("a free lock"));
    client.inspect(&name).await.expect("an answer");
    proxy.set(Mode::SwallowReplies);
    let failed = client.acquire(LockRequest::new(&name).ttl(MINUTE).wait(Wait::No)).await;
    let Err(LockError::Backend { source, .. }) = failed else {
        panic!("no reply came through, and we were told {failed:?}");
    };
    assert_eq!(source.outcome(), leasehold::Outcome::Unknown);
    let counter = server.cli(&["EXISTS", &format!("{{{name}}}:fence")]);
    assert_eq!(counter, Reply::Integer(1), "the request was to be applied");
    proxy.set(Mode::Pass);
    proxy.cut();
    until_free(&server, &name).await;
}

/// C19: a stopped server applies what was sent to it before it hears that the sender gave up; the
/// request of a claim that was withdrawn meanwhile must not take the lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c19_a_ghost_of_a_stopped_server_takes_nothing() {
    let server = RedisServer::start().await;
    let client = client(&server.url()).await;
    let names: Vec<String> = (0..20).map(|_| fresh_name()).collect();
    server.stop();
    let acquiring = names.iter().map(|name| {
        let request = LockRequest::new(name).ttl(MINUTE).wait(Wait::AtMost(SLACK));
        client.acquire(request)
    });
    for failed in futures_util::future::join_all(acquiring).await {
        assert!(failed.is_err(), "{failed:?} from a stopped server");
    }
    server.cont();
    for name in &names {
        until_free(&server, name).await;
    }
    client.shutdown().await;
    for name in &names {
        assert_eq!(server.cli(&["EXISTS", name]), Reply::Integer(0));
    }
}

/// C16: a release whose reply was lost on the wire is a release.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c16_a_release_whose_reply_was_lost_on_the_wire_is_released() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.addr()).await;
    let (client, name) = (client(&proxy.url()).await, fresh_name());
    let guard = client.acquire(patient(&name)).await.expect("a free lock");
    proxy.set_existing(Mode::SwallowReplies);
    assert_eq!(guard.release().await.expect("a second try"), Release::Released);
}

/// C28: with the push connection gone, a waiter still gets in, and the connection comes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_a_dead_push_connection_costs_at_most_a_poll() {
    let server = RedisServer::start().await;
    let (holder, waiter) = (client(&server.url()).await, client(&server.url()).await);
    for _ in 0..3 {
        let name = fresh_name();
        let guard = holder.acquire(patient(&name)).await.expect("a free lock");
        let waiting = tokio::spawn({
            let (waiter, request) = (waiter.clone(), patient(&name));
            async move { waiter.acquire(request).await }
        });
        eventually("it queues", LIMIT, async || {
            holder.inspect(&name).await.expect("an answer").waiters == Some(1)
        })
        .await;
        server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]);
        let released = Instant::now();
        guard.release().await.expect("an answer");
        let next = timeout(LIMIT, waiting).await.expect("its turn comes").expect("no panic");
        next.expect("granted").release().await.expect("an answer");
        let took = released.elapsed();
        assert!(took < Duration::from_secs(1) + SLACK, "served after {took:?}");
    }
}

/// C28: a grant that is pushed into a black hole is missed; the poll finds it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_a_missed_push_costs_at_most_a_poll() {
    let server = RedisServer::start().await;
    let requests = client(&server.url()).await;
    let proxy = Proxy::start(server.addr()).await;
    let waiter = client(&proxy.url()).await;
    let name = fresh_name();
    let guard = requests.acquire(patient(&name)).await.expect("a free lock");
    let waiting = tokio::spawn({
        let (waiter, request) = (waiter.clone(), patient(&name));
        async move { waiter.acquire(request).await }
    });
    eventually("it queues", LIMIT, async || {
        requests.inspect(&name).await.expect("an answer").waiters == Some(1)
    })
    .await;
    proxy.set_existing(Mode::BlackHole);
    let released = Instant::now();
    guard.release().await.expect("an answer");
    let next = timeout(LIMIT, waiting).await.expect("its turn comes").expect("no panic");
    next.expect("granted").release().await.expect("an answer");
    // One poll that the black hole swallows, and one on a new connection.
    let took = released.elapsed();
    assert!(took < Duration::from_secs(3) + SLACK, "served after {took:?}");
}

/// Refusals of the server are typed, say whether a retry may help, and leave nothing half done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_takes_no_writes_says_so_and_takes_no_lock() {
    let server = RedisServer::start().await;
    let client = client(&server.url()).await;
    let memory = [&["CONFIG", "SET", "maxmemory", "1"][..], &["CONFIG", "SET", "maxmemory", "0"]];
    let replica = [&["REPLICAOF", "127.0.0.1", "1"][..], &["REPLICAOF", "NO", "ONE"]];
    let replicas = [
        &["CONFIG", "SET", "min-replicas-to-write", "1"][..],
        &["CONFIG", "SET", "min-replicas-to-write", "0"],
    ];
    for [spoil, mend] in [memory, replica, replicas] {
        let name = fresh_name();
        server.cli(spoil);
        let refused = client.acquire(LockRequest::new(&name).wait(Wait::No)).await;
        let Err(LockError::Backend { source, .. }) = refused else {
            panic!("{spoil:?}: {refused:?}");
        };
        assert!(source.is_transient(), "{spoil:?}: {source}");
        assert_eq!(source.outcome(), leasehold::Outcome::NotApplied, "{spoil:?}: {source}");
        server.cli(mend);
        assert_eq!(server.cli(&["EXISTS", &name]), Reply::Integer(0), "{spoil:?}");
        client
            .acquire(patient(&name))
            .await
            .expect("it goes on")
            .release()
            .await
            .expect("an answer");
    }
}

/// A waiter outlives a restart of the server, and gets in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_outlives_a_restart_of_the_server() {
    let mut server = RedisServer::start_with(&["--appendonly", "yes"]).await;
    let (holder, waiter) = (client(&server.url()).await, client(&server.url()).await);
    let name = fresh_name();
    let guard = holder.acquire(patient(&name)).await.expect("a free lock");
    let waiting = tokio::spawn({
        let request = patient(&name).wait(Wait::Forever);
        async move { waiter.acquire(request).await }
    });
    eventually("it queues", LIMIT, async || {
        holder.inspect(&name).await.expect("an answer").waiters == Some(1)
    })
    .await;
    server.kill();
    server.restart().await;
    guard.release().await.expect("an answer");
    let next = timeout(LIMIT, waiting).await.expect("its turn comes").expect("no panic");
    next.expect("granted").release().await.expect("an answer");
}

/// C28: a waiter that cannot open a push connection polls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_a_waiter_without_a_push_connection_polls() {
    let server = RedisServer::start().await;
    let holder = client(&server.url()).await;
    let proxy = Proxy::start(server.addr()).await;
    let waiter = client(&proxy.url()).await;
    // The connection for requests works, and no further one does.
    proxy.set(Mode::BlackHole);
    proxy.set_existing(Mode::Pass);
    let name = fresh_name();
    let guard = holder.acquire(patient(&name)).await.expect("a free lock");
    let bounded = patient(&name).wait(Wait::AtMost(Duration::from_millis(1500)));
    let late = waiter.acquire(bounded).await;
    assert!(matches!(late, Err(LockError::Timeout { .. })), "{late:?}");
    let waiting = tokio::spawn({
        let request = patient(&name).wait(Wait::Forever);
        async move { waiter.acquire(request).await }
    });
    // Longer than an endless wait bears with a server that does not answer.
    tokio::time::sleep(REQUEST_TIMEOUT * 6).await;
    guard.release().await.expect("an answer");
    let next = timeout(LIMIT, waiting).await.expect("its turn comes").expect("no panic");
    next.expect("granted").release().await.expect("an answer");
}

/// C19: a server out of memory takes nothing new, but what is given back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c19_a_full_server_takes_back_what_was_dropped() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.addr()).await;
    let (client, name) = (client(&proxy.url()).await, fresh_name());
    drop(client.acquire(patient(&fresh_name())).await.expect("a free lock"));
    proxy.set(Mode::Delay(Duration::from_millis(100)));
    let cancelled = timeout(Duration::from_millis(150), client.acquire(patient(&name))).await;
    assert!(cancelled.is_err(), "it was to be dropped before the reply");
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    until_free(&server, &name).await;
    client.shutdown().await;
    assert_eq!(server.cli(&["EXISTS", &name]), Reply::Integer(0));
}
