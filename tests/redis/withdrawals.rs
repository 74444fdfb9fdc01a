//! C19: remains of withdrawn claims on a Redis server, and late requests that they refuse.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use leasehold::{LockClient, LockGuard, LockRequest, Wait};
use lock_testkit::{Mode, Proxy, RedisServer, eventually};
use tokio::time::sleep;

use crate::resources::calls;
use crate::server::RedisFaults;
use crate::support::{
    LIMIT, MINUTE, Waiting, acquiring, client, client_through, fresh_name, held, patient, released,
    turn, until_free,
};

/// Returns the number of keys that match `pattern`.
fn keys(server: &RedisServer, pattern: &str) -> usize {
    server.cli(&["KEYS", pattern]).array().len()
}

fn marks(server: &RedisServer) -> usize {
    keys(server, "*:withdrawn:*")
}

/// Counts the requests that the server refused because of a mark.
fn refused(server: &RedisServer) -> usize {
    let stats = server.cli(&["INFO", "errorstats"]);
    let count =
        stats.text().lines().find_map(|line| line.strip_prefix("errorstat_WITHDRAWN:count="));
    count.map_or(0, |count| count.trim().parse().expect("a number"))
}

/// Returns the number of scripts called so far.
fn requests_run(server: &RedisServer) -> u64 {
    let calls = calls(server);
    ["eval", "evalsha"].iter().filter_map(|command| calls.get(*command)).sum()
}

fn waiting(client: &LockClient, name: &str) -> Waiting {
    acquiring(client, patient(name))
}

/// R4: cancelled waits leave no place in a queue, and only marks that expire.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r4_cancelled_waits_leave_only_marks_that_expire() {
    let server = RedisServer::start().await;
    let (holder, waiter) = (client(&server.url()).await, client(&server.url()).await);
    let names: Vec<String> = (0..100).map(|_| fresh_name()).collect();
    let guards = join_all(names.iter().map(|name| held(&holder, name))).await;
    let waits: Vec<Waiting> = names.iter().map(|name| waiting(&waiter, name)).collect();
    eventually("all wait", LIMIT, async || keys(&server, "*:queue") == 100).await;
    for wait in &waits {
        wait.abort();
    }
    join_all(waits).await;
    waiter.shutdown().await;
    assert_eq!((keys(&server, "*:queue"), keys(&server, "*:waiters")), (0, 0));
    for mark in server.cli(&["KEYS", "*:withdrawn:*"]).array() {
        let left = server.cli(&["PTTL", mark.text()]).integer();
        assert!((1..=30_000).contains(&left), "{left} ms");
    }
    join_all(guards.into_iter().map(released)).await;
}

/// Late requests are refused, in a batch and one by one, as requests of different TTLs are sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c19_a_lost_connection_leaves_marks_which_refuse_late_requests() {
    assert_eq!(refused_of_five_that_come_late(1, 5).await, 5);
    // In a batch, the first request goes alone and is refused, and few others may be; the rest is one call, which
    // grants none of them. After a pause of the machine all may go alone.
    for _ in 0..5 {
        if (1..=4).contains(&refused_of_five_that_come_late(0, 2).await) {
            return;
        }
    }
    panic!("none went in company, again and again");
}

/// Lets five requests, whose TTLs are `apart` ms apart, arrive after their withdrawal, and asserts that they take
/// nothing. Returns the number that were refused separately, once `late` have arrived.
async fn refused_of_five_that_come_late(apart: u64, late: u64) -> usize {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.addr()).await;
    let client = client_through::<RedisFaults>(&proxy).await;
    let names: Vec<String> = (0..5).map(|_| fresh_name()).collect();
    // A lock that has its counter is granted by the shortest path.
    for name in &names {
        turn(&client, name).await;
    }
    proxy.set_existing(Mode::BlackHole);
    let request = |(i, name): (usize, &String)| {
        let ttl = MINUTE + Duration::from_millis(apart * i as u64);
        LockRequest::new(name).ttl(ttl).wait(Wait::AtMost(Duration::from_secs(2)))
    };
    let requests = names.iter().enumerate().map(request);
    let granted = join_all(requests.map(|request| client.acquire(request))).await;
    // A second try, over a new connection, may have been granted.
    drop(granted);
    client.shutdown().await;
    assert_eq!((marks(&server), refused(&server)), (5, 0));
    let before = requests_run(&server);
    proxy.set_existing(Mode::Pass);
    eventually("they come late", LIMIT, async || requests_run(&server) >= before + late).await;
    let refused = refused(&server);
    for name in &names {
        assert_eq!(server.cli(&["EXISTS", name]).integer(), 0, "a late request took the lock");
    }
    refused
}

/// The first request of a lease may also arrive late after another client released the lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c19_a_late_request_of_a_lease_that_was_handed_on_takes_nothing() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.addr()).await;
    let (first, second) =
        (client_through::<RedisFaults>(&proxy).await, client(&server.url()).await);
    turn(&first, &fresh_name()).await;
    let name = fresh_name();
    proxy.set_existing(Mode::BlackHole);
    // The lost request, and one over a new connection, which is granted.
    let lease = held(&first, &name).await.detach().expect("it is held");
    let guard: LockGuard = second.attach(lease).await.expect("it is held");
    released(guard).await;
    second.shutdown().await;
    until_free(&second, &name).await;
    proxy.set_existing(Mode::Pass);
    eventually("the late request is refused", LIMIT, async || refused(&server) > 0).await;
    assert_eq!(server.cli(&["EXISTS", &name]).integer(), 0, "a late request took the lock");
}

/// A caller of a batch that has left holds nothing, even if its request was left out of the batch.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c19_who_asked_in_company_and_left_holds_nothing() {
    let server = RedisServer::start().await;
    let (client, observer) = (client(&server.url()).await, client(&server.url()).await);
    turn(&client, &fresh_name()).await;
    let names: Vec<String> = (0..20).map(|_| fresh_name()).collect();
    // A dead waiter in each queue: that is not the common case.
    for name in &names {
        server.cli(&["ZADD", &format!("{{{name}}}:queue"), "1", "dead"]);
    }
    server.stop();
    let waits: Vec<Waiting> = names.iter().map(|name| waiting(&client, name)).collect();
    sleep(Duration::from_millis(10)).await;
    for wait in &waits {
        wait.abort();
    }
    join_all(waits).await;
    server.cont();
    client.shutdown().await;
    let end = Instant::now() + Duration::from_millis(200);
    while Instant::now() < end {
        let held = observer.admin().list("test-", 20).await.expect("an answer");
        assert_eq!(held, [], "a request took a lock for a caller who had left");
    }
}
