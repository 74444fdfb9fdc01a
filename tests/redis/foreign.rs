//! C29: clients that share nothing with us but the key and `SET … NX PX`.

use std::time::{Duration, Instant};

use leasehold::{LockError, LockRequest, LostReason, Wait};
use lock_testkit::{RedisServer, Reply};
use tokio::time::timeout;

use crate::support::{LIMIT, client, fresh_name, patient};

/// How clients of many libraries give back what they took.
const DELETE_OWN: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c29_a_foreign_client_keeps_us_out_and_lets_us_in() {
    let server = RedisServer::start().await;
    let (client, name) = (client(&server.url()).await, fresh_name());
    assert_eq!(server.cli(&["SET", &name, "theirs", "NX", "PX", "5000"]).text(), "OK");

    assert!(client.try_acquire(&*name).await.expect("an answer").is_none(), "two holders");
    let holder = client.inspect(&name).await.expect("an answer").holder.expect("held");
    assert_eq!((holder.owner, holder.token), (None, None));
    assert!(holder.ttl_left.expect("a TTL") <= Duration::from_secs(5));

    // It releases without a message to us, so a waiter looks at the server itself.
    let waiting = tokio::spawn({
        let (client, request) = (client.clone(), patient(&name));
        async move { client.acquire(request).await }
    });
    let deleted = server.cli(&["EVAL", DELETE_OWN, "1", &name, "theirs"]);
    assert_eq!(deleted, Reply::Integer(1));
    let released = Instant::now();
    let guard = timeout(LIMIT, waiting).await.expect("its turn comes").expect("no panic");
    assert!(released.elapsed() < Duration::from_millis(1500), "{:?}", released.elapsed());
    guard.expect("granted").release().await.expect("an answer");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c29_we_keep_a_foreign_client_out_and_let_it_in() {
    let server = RedisServer::start().await;
    let (client, name) = (client(&server.url()).await, fresh_name());
    let guard = client.acquire(patient(&name)).await.expect("a free lock");
    assert_eq!(server.cli(&["SET", &name, "theirs", "NX", "PX", "5000"]), Reply::Nil);
    assert_eq!(server.cli(&["EVAL", DELETE_OWN, "1", &name, "theirs"]), Reply::Integer(0));
    guard.release().await.expect("an answer");
    assert_eq!(server.cli(&["SET", &name, "theirs", "NX", "PX", "5000"]).text(), "OK");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c29_a_foreign_lock_expires_for_our_waiters() {
    let server = RedisServer::start().await;
    let (client, name) = (client(&server.url()).await, fresh_name());
    server.cli(&["SET", &name, "theirs", "NX", "PX", "300"]);
    let asked = Instant::now();
    let guard = client.acquire(patient(&name)).await.expect("its turn comes");
    assert!(asked.elapsed() < Duration::from_millis(1500), "{:?}", asked.elapsed());
    guard.release().await.expect("an answer");
}

/// A value that somebody else put under our key keeps us out, and we neither extend nor delete it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c29_a_key_without_expiry_is_left_alone() {
    let server = RedisServer::start().await;
    let (client, name) = (client(&server.url()).await, fresh_name());
    for value in ["", "theirs", "0123:5:x", "0123456789abcdef0123456789abcdef:x:y"] {
        server.cli(&["SET", &name, value]);
        let request = LockRequest::new(&name).wait(Wait::AtMost(Duration::from_millis(50)));
        let busy = client.acquire(request).await;
        assert!(matches!(busy, Err(LockError::Timeout { .. })), "{value:?}: {busy:?}");
        assert_eq!(server.cli(&["GET", &name]).text(), value);
        assert_eq!(server.cli(&["PTTL", &name]).integer(), -1);
    }
}

/// A holder notices at its next renewal that a foreign client overwrote or deleted the key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c08_a_deleted_or_overwritten_key_is_noticed_at_the_next_renewal() {
    let server = RedisServer::start().await;
    let (client, ttl) = (client(&server.url()).await, Duration::from_millis(1500));
    for command in [&["DEL"][..], &["SET", "theirs"], &["LPUSH", "theirs"], &["FLUSHALL"]] {
        let name = fresh_name();
        let guard = client.acquire(patient(&name).ttl(ttl)).await.expect("a free lock");
        let spoilt = Instant::now();
        if let ["LPUSH", ..] = command {
            server.cli(&["DEL", &name]);
        }
        match command {
            ["FLUSHALL"] => server.cli(&["FLUSHALL"]),
            [verb, rest @ ..] => server.cli(&[&[*verb, &name], rest].concat()),
            [] => Reply::Nil,
        };
        let reason = timeout(LIMIT, guard.lost()).await.expect("the loss is told");
        assert_eq!(reason, LostReason::Evicted, "{command:?}");
        let took = spoilt.elapsed();
        assert!(took < ttl / 3 + Duration::from_millis(300), "{command:?} noticed after {took:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c29_a_foreign_holder_is_evicted_too() {
    let server = RedisServer::start().await;
    let (client, name) = (client(&server.url()).await, fresh_name());
    server.cli(&["SET", &name, "theirs", "NX"]);
    let ended = client.evict(&name).await.expect("an answer").expect("it was held");
    assert_eq!((ended.owner, ended.token, ended.ttl_left), (None, None, None));
    client.acquire(patient(&name)).await.expect("it is free").release().await.expect("an answer");
}
