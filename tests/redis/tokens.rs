//! C22: tokens grow through all events of a Redis server.

use lock_testkit::Expect;
use std::time::Duration;

use leasehold::admin::Health;
use leasehold::core::backend::{Reservation, Reserved};
use leasehold::redis::RedisBackend;
use leasehold::{LockError, LockRequest, Ttl, Wait};
use lock_testkit::LeaseExt;
use lock_testkit::{RedisServer, Reply, eventually};

use crate::support::{
    LIMIT, client, finding, fresh_name, held, patient, queued, released, served,
    steps_of_the_servers_clock, turn,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_tokens_grow_through_a_loss_of_all_data() {
    let mut server = RedisServer::start().await;
    let (client, name) = (client(&server.url()).await, fresh_name());
    let first = turn(&client, &name).await;
    server.cli(&["FLUSHALL"]);
    let second = turn(&client, &name).await;
    server.cli(&["SCRIPT", "FLUSH"]);
    let third = turn(&client, &name).await;
    server.kill();
    server.restart().await;
    let fourth = turn(&client, &name).await;
    assert!(
        first < second && second < third && third < fourth,
        "{first} {second} {third} {fourth}"
    );
}

/// A counter ahead of the clock, as after a step of the clock, grows by one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_counter_ahead_of_the_clock_goes_on() {
    let server = RedisServer::start().await;
    let (client, name) = (client(&server.url()).await, fresh_name());
    server.cli(&["SET", &format!("{{{name}}}:fence"), "9007199254740000"]);
    assert_eq!(turn(&client, &name).await.get(), 9_007_199_254_740_001);
    assert_eq!(turn(&client, &name).await.get(), 9_007_199_254_740_002);
}

/// Tokens are reserved only behind the clock, so that the clock is ahead of a counter that is lost. If they would
/// not be, or if there is no counter, the hold is released.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_no_range_goes_past_the_clock() {
    let server = RedisServer::start().await;
    let backend = RedisBackend::connect(&server.url()).await.expect("a server");
    for (counter, behind_the_clock) in
        [(Some("9007199254740000"), false), (None, false), (Some("1000"), true)]
    {
        let name = fresh_name();
        let fence = format!("{{{name}}}:fence");
        let lease = backend.acquire_lease(&LockRequest::new(&name)).await.expect("a free lock");
        match counter {
            Some(counter) => server.cli(&["SET", &fence, counter]),
            None => server.cli(&["DEL", &fence]),
        };
        tokio::time::sleep(Duration::from_millis(1)).await;
        let hold = Reservation::new(&lease, 2, false);
        let answer =
            backend.expect_token_ranges().release_or_reserve(&hold).await.expect("an answer");
        let is_reserved = matches!(answer, Reserved::Tokens(_));
        assert_eq!(is_reserved, behind_the_clock, "{counter:?}: {answer:?}");
        let counted = server.cli(&["GET", &fence]);
        match counter {
            Some("1000") => assert_eq!(counted, Reply::Text("1002".into())),
            Some(same) => assert_eq!(counted, Reply::Text(same.into()), "it is as it was"),
            None => assert_eq!(counted, Reply::Nil, "it is as it was"),
        }
    }
}

/// A counter at 0 has counted no token: in every script the next token is the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_counter_at_zero_counts_as_missing() {
    let server = RedisServer::start().await;
    let client = client(&server.url()).await;
    let names: Vec<String> = (0..8).map(|_| fresh_name()).collect();
    for name in &names {
        server.cli(&["SET", &format!("{{{name}}}:fence"), "0"]);
    }
    let micros = 1_000_000_000_000_000;
    // Alone, of another kind, and in a batch.
    assert!(turn(&client, &names[0]).await.get() > micros);
    let shared = client.acquire(LockRequest::new(&names[1]).shared()).await.expect("it is free");
    assert!(shared.token().get() > micros);
    let together = names[2..].iter().map(|name| turn(&client, name));
    for token in futures_util::future::join_all(together).await {
        assert!(token.get() > micros, "{token}");
    }
}

/// A damaged counter is refused before anything is written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_damaged_counter_is_a_typed_error_and_takes_no_lock() {
    let server = RedisServer::start().await;
    let client = client(&server.url()).await;
    for garbage in ["x", "-1", "1.5", "", "9007199254740991", "9007199254740992"] {
        let name = fresh_name();
        server.cli(&["SET", &format!("{{{name}}}:fence"), garbage]);
        let refused = client.acquire(LockRequest::new(&name).wait(Wait::Never)).await;
        assert!(matches!(refused, Err(LockError::Backend { .. })), "{garbage:?}: {refused:?}");
        assert_eq!(server.cli(&["EXISTS", &name]), Reply::Integer(0), "{garbage:?}");
    }
}

/// Keys of another type in place of a lock's companions: a typed error, and nothing is written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn companions_of_another_type_are_a_typed_error_and_take_no_lock() {
    let server = RedisServer::start().await;
    let client = client(&server.url()).await;
    for companion in ["fence", "queue"] {
        let name = fresh_name();
        server.cli(&["LPUSH", &format!("{{{name}}}:{companion}"), "x"]);
        let refused = client.acquire(LockRequest::new(&name).wait(Wait::Never)).await;
        let Err(LockError::Backend { source, .. }) = refused else {
            panic!("{companion:?}: {refused:?}");
        };
        assert!(!source.is_transient(), "{source}");
        assert_eq!(server.cli(&["EXISTS", &name]), Reply::Integer(0), "{companion:?}");
    }
}

/// A replica without the last grants takes over at the address of a dead server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_tokens_grow_when_a_replica_takes_over_behind_the_address() {
    let mut server = RedisServer::start().await;
    let (address, name) = (server.addr(), fresh_name());
    let client = client(&format!("redis://{address}/")).await;
    turn(&client, &name).await;
    let port = address.port().to_string();
    let replica = RedisServer::start_with(&["--replicaof", "127.0.0.1", &port]).await;
    let mut session = replica.session();
    let counter = format!("{{{name}}}:fence");
    eventually("it has the counter", LIMIT, async || replica.cli(&["GET", &counter]) != Reply::Nil)
        .await;
    session.call(&["REPLICAOF", "NO", "ONE"]);
    let mut last = turn(&client, &name).await;
    for _ in 0..5 {
        last = turn(&client, &name).await;
    }
    server.kill();
    let moved = session.call(&["CONFIG", "SET", "port", &port]);
    assert_eq!(moved.to_string(), "OK", "the replica is to answer at the address");
    let next = turn(&client, &name).await;
    assert!(next > last, "{next} after {last}");
}

/// Each kind of grant follows the clock: alone, in a batch, handed over, beside others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_counter_behind_the_clock_catches_up() {
    let server = RedisServer::start().await;
    let (one, other) = (client(&server.url()).await, client(&server.url()).await);
    let names: Vec<String> = (0..8).map(|_| fresh_name()).collect();
    let set_back = |name: &str| server.cli(&["SET", &format!("{{{name}}}:fence"), "7"]);
    names.iter().for_each(|name| drop(set_back(name)));
    let year_2001 = 1_000_000_000_000_000;
    assert!(turn(&one, &names[0]).await.get() > year_2001);
    let shared = one.acquire(LockRequest::new(&names[1]).shared()).await.expect("it is free");
    assert!(shared.token().get() > year_2001);
    let together = names[2..].iter().map(|name| turn(&one, name));
    for token in futures_util::future::join_all(together).await {
        assert!(token.get() > year_2001, "{token}");
    }
    let guard = held(&one, &names[0]).await;
    let waiting = queued(&other, &one, patient(&names[0]), &names[0]).await;
    set_back(&names[0]);
    released(guard).await;
    let next = served(waiting).await;
    assert!(next.token().get() > year_2001, "{}", next.token());
}

/// The clocks of the server and of all clients were a month ahead, and were set right. A counter that goes before
/// the clock reaches its token would let tokens fall back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_counter_ahead_of_the_clock_outlives_the_time_of_its_token() {
    const DAY: i64 = 24 * 60 * 60 * 1000;
    let server = RedisServer::start().await;
    let (one, other) = (client(&server.url()).await, client(&server.url()).await);
    let names: Vec<String> = (0..8).map(|_| fresh_name()).collect();
    let counter = |name: &str| format!("{{{name}}}:fence");
    let set_ahead = |name: &str| {
        let now: i64 = server.cli(&["TIME"]).array()[0].text().parse().expect("seconds");
        let token = format!("{}000000", now + 30 * DAY / 1000);
        server.cli(&["SET", &counter(name), &token, "PX", &(37 * DAY).to_string()]);
    };
    names.iter().for_each(|name| set_ahead(name));
    // Alone, beside others, in a batch, and handed over.
    turn(&one, &names[0]).await;
    released(one.acquire(LockRequest::new(&names[1]).shared()).await.expect("it is free")).await;
    futures_util::future::join_all(names[2..6].iter().map(|name| turn(&one, name))).await;
    let guard = held(&one, &names[6]).await;
    let waiting = queued(&other, &one, patient(&names[6]), &names[6]).await;
    set_ahead(&names[6]);
    released(guard).await;
    released(served(waiting).await).await;
    // Renewed: the longest TTL reaches from any hour of a day to the day's start.
    let ttl = Ttl::MAX.as_duration();
    let guard = one.acquire(patient(&names[7]).ttl(ttl)).await.expect("it is free");
    set_ahead(&names[7]);
    guard.extend(ttl).await.expect("it is held");
    released(guard).await;
    for name in &names {
        let left = server.cli(&["PTTL", &counter(name)]).integer();
        assert!(left > 36 * DAY, "{name}: the counter lasts for {left} ms");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c31_an_address_that_may_fail_over_is_named() {
    let server = RedisServer::start().await;
    let port = server.port().to_string();
    let _replica = RedisServer::start_with(&["--replicaof", "127.0.0.1", &port]).await;
    eventually("it has a replica", LIMIT, async || {
        server.cli(&["INFO", "replication"]).text().contains("connected_slaves:1")
    })
    .await;
    let client = client(&server.url()).await;
    for (number, health) in [("0", Health::Risk), ("1", Health::Good)] {
        server.cli(&["CONFIG", "SET", "min-replicas-to-write", number]);
        let replicas = finding(&client, "replicas").await;
        assert_eq!(replicas.health, health, "{replicas}");
    }
}

/// P1: a step forward ends holds early: two may believe.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p1_tokens_grow_though_the_servers_clock_is_set() {
    let server = RedisServer::start_with_clock(&[]).await;
    steps_of_the_servers_clock(&server.url(), server.clock(), true).await;
}
