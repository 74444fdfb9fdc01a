//! C29, C49: clients that share only the key and `SET … NX PX` with us, and keys that are no locks.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use leasehold::admin::Health;
use leasehold::{LockError, LockRequest, LostReason, Wait};
use lock_testkit::{RedisServer, Reply, eventually};
use tokio::time::timeout;

use crate::kinds::commands;
use crate::support::{
    LIMIT, SLACK, acquiring, client, fresh_name, held, holder_of, patient, queued, released, served,
};

/// Script with which clients of many libraries release their locks.
const DELETE_OWN: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c29_a_foreign_client_keeps_us_out_and_lets_us_in() {
    let server = RedisServer::start().await;
    let (client, name) = (client(&server.url()).await, fresh_name());
    assert_eq!(server.cli(&["SET", &name, "theirs", "NX", "PX", "5000"]).text(), "OK");

    assert!(client.try_acquire(&*name).await.expect("an answer").is_none(), "two holders");
    let holder = holder_of(&client, &name).await;
    assert_eq!((holder.owner, holder.token), (None, None));
    assert!(holder.ttl_left.expect("a TTL") <= Duration::from_secs(5));

    // The foreign holder releases without a message to us, so a waiter looks at the server itself.
    let waiting = acquiring(&client, patient(&name));
    let deleted = server.cli(&["EVAL", DELETE_OWN, "1", &name, "theirs"]);
    assert_eq!(deleted, Reply::Integer(1));
    let released = Instant::now();
    let guard = timeout(LIMIT, waiting).await.expect("its turn comes").expect("no panic");
    assert!(released.elapsed() < Duration::from_secs(4), "{:?}", released.elapsed());
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
    assert!(asked.elapsed() < Duration::from_secs(4), "{:?}", asked.elapsed());
    guard.release().await.expect("an answer");
}

/// A foreign value under our key keeps us out, and we neither extend nor delete it. The refused caller learns the
/// reason (C49).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c29_a_key_without_expiry_is_left_alone() {
    let server = RedisServer::start().await;
    let (client, name) = (client(&server.url()).await, fresh_name());
    for value in ["", "theirs", "0123:5:x", "0123456789abcdef0123456789abcdef:x:y"] {
        server.cli(&["SET", &name, value]);
        let request = LockRequest::new(&name).wait(Wait::Never);
        let busy = client.acquire(request).await.expect_err(value);
        assert!(busy.is_busy() && busy.to_string().contains("a key without a TTL"), "{busy}");
        let found = client.admin().examine(&name).await.expect("an answer");
        assert_eq!(found[0].health, Health::Risk, "{found:?}");
        assert_eq!(server.cli(&["GET", &name]).text(), value);
        assert_eq!(server.cli(&["PTTL", &name]).integer(), -1);
    }
}

/// C49: a key of another type is an error that names it, at once in any wait, and stays untouched.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c49_a_key_of_another_type_is_named_at_once() {
    let server = RedisServer::start().await;
    let client = client(&server.url()).await;
    let kinds: [(&str, &[&str], &str); 5] = [
        ("RPUSH", &["x"], "list"),
        ("HSET", &["x", "y"], "hash"),
        ("SADD", &["x"], "set"),
        ("ZADD", &["1", "x"], "zset"),
        ("XADD", &["*", "x", "y"], "stream"),
    ];
    for (command, value, kind) in kinds {
        let name = fresh_name();
        server.cli(&[&[command, &name], value].concat());
        for wait in [Wait::Never, Wait::AtMost(LIMIT), Wait::Forever] {
            let acquired =
                timeout(LIMIT / 3, client.acquire(LockRequest::new(&name).wait(wait))).await;
            is_named(&acquired.expect("at once").map(drop), &name, kind);
        }
        is_named(&client.admin().inspect(&name).await, &name, kind);
        is_named(&client.admin().evict(&name).await, &name, kind);
        let found = client.admin().examine(&name).await.expect("an answer");
        assert!(found[0].health == Health::Risk && found[0].seen.contains(kind), "{found:?}");
        assert_eq!(server.cli(&["TYPE", &name]).text(), kind, "it is left alone");
    }
}

fn is_named<T: std::fmt::Debug>(answer: &Result<T, LockError>, name: &str, kind: &str) {
    let Err(error @ LockError::NotALock { .. }) = answer else { panic!("{kind}: {answer:?}") };
    let text = error.to_string();
    assert!(text.contains(name) && text.contains(&format!("type {kind}")), "{text}");
}

/// C49: a waiter finds such a key at its next look. A hold whose key became another type is over, as any hold without
/// its key (C14).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c49_a_lock_that_becomes_a_key_of_another_type_is_over() {
    let server = RedisServer::start().await;
    let (holder, waiter) = (client(&server.url()).await, client(&server.url()).await);
    let name = fresh_name();
    let guard = holder.acquire(patient(&name)).await.expect("a free lock");
    let waiting = queued(&waiter, &holder, patient(&name), &name).await;
    server.cli(&["DEL", &name]);
    server.cli(&["RPUSH", &name, "x"]);
    let refused = timeout(LIMIT, waiting).await.expect("its next look").expect("no panic");
    is_named(&refused.map(drop), &name, "list");
    assert!(matches!(guard.release().await, Err(LockError::Lost { .. })));
    let lease = holder.acquire(fresh_name()).await.expect("a free lock").detach().expect("held");
    server.cli(&["DEL", lease.name().as_str()]);
    server.cli(&["RPUSH", lease.name().as_str(), "x"]);
    assert!(matches!(holder.attach(lease).await, Err(LockError::Lost { .. })));
}

/// C49: a lock behind a prefix is the plain key of the prefix and the name, for any client.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c49_a_prefixed_lock_and_a_foreign_client_exclude_each_other() {
    let server = RedisServer::start().await;
    let (shop, name) = (client(&format!("{}?prefix=shop:", server.url())).await, fresh_name());
    let key = format!("shop:{name}");
    let guard = shop.acquire(patient(&name)).await.expect("a free lock");
    assert_eq!(server.cli(&["SET", &key, "theirs", "NX", "PX", "5000"]), Reply::Nil);
    guard.release().await.expect("it was held");
    assert_eq!(server.cli(&["SET", &key, "theirs", "NX", "PX", "5000"]).text(), "OK");
    assert!(shop.try_acquire(&*name).await.expect("an answer").is_none(), "two holders");
}

/// A holder notices at its next renewal that a foreign client overwrote or deleted the key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c08_a_deleted_or_overwritten_key_is_noticed_at_the_next_renewal() {
    let server = RedisServer::start().await;
    let (client, ttl) = (client(&server.url()).await, Duration::from_secs(6));
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
        assert!(took < ttl / 3 + SLACK, "{command:?} noticed after {took:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c29_a_foreign_holder_is_evicted_too() {
    let server = RedisServer::start().await;
    let (client, name) = (client(&server.url()).await, fresh_name());
    server.cli(&["SET", &name, "theirs", "NX"]);
    let ended = client.admin().evict(&name).await.expect("an answer").pop().expect("it was held");
    assert_eq!((ended.owner, ended.token, ended.ttl_left), (None, None, None));
    client.acquire(patient(&name)).await.expect("it is free").release().await.expect("an answer");
}

/// C27: a lock whose key has gone, as after an expiry, belongs to the first waiter, and not to the next client that
/// asks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c27_a_newcomer_does_not_pass_the_queue() {
    let server = RedisServer::start().await;
    let (first, second) = (client(&server.url()).await, client(&server.url()).await);
    let name = fresh_name();
    let gone = held(&first, &name).await;
    let waiting = queued(&second, &first, patient(&name), &name).await;
    server.cli(&["DEL", &name]);
    let newcomer = first.try_acquire(&name).await.expect("an answer");
    assert!(newcomer.is_none(), "it was granted before the waiter");
    released(served(waiting).await).await;
    drop(gone);
}

/// C29: a foreign client releases without a message, and asks again at once. The first waiter asks often too, and it
/// alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c29_the_first_waiter_behind_a_foreign_client_looks_often() {
    let server = RedisServer::start().await;
    let clients = [client(&server.url()).await, client(&server.url()).await];
    let name = fresh_name();
    server.cli(&["SET", &name, "theirs", "NX", "PX", "60000"]);
    let waits = clients.map(|client| acquiring(&client, patient(&name)));
    let queue = format!("{{{name}}}:queue");
    eventually("both wait", LIMIT, async || server.cli(&["ZCARD", &queue]) == Reply::Integer(2))
        .await;
    server.cli(&["CONFIG", "RESETSTAT"]);
    let (looks, begun) = (20, Instant::now());
    eventually("they look", LIMIT, async || {
        let calls = commands(&server).into_iter().find(|(command, _)| command == "evalsha");
        calls.is_some_and(|(_, calls)| calls.parse::<u32>().expect("a number") >= looks)
    })
    .await;
    // Two waiters that look once a second need ten.
    assert!(begun.elapsed() < Duration::from_secs(7), "{:?}", begun.elapsed());
    server.cli(&["DEL", &name]);
    // Either may be the first.
    join_all(waits.map(|waiting| async { released(served(waiting).await).await })).await;
}

/// C29: a client in another language takes the plain name, which is not our key if it has braces.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c29_the_doctor_finds_the_plain_key_of_an_odd_name() {
    let server = RedisServer::start().await;
    let client = client(&format!("{}?prefix=shop:", server.url())).await;
    for name in ["{42}", "50%"] {
        let examined = async || client.admin().examine(name).await.expect("an answer");
        assert!(examined().await.iter().all(|finding| finding.health == Health::Good));
        server.cli(&["SET", &format!("shop:{name}"), "theirs", "NX", "PX", "60000"]);
        let found = examined().await;
        let odd = found.iter().find(|finding| finding.check == "name").expect("it looks");
        assert!(odd.health == Health::Risk && odd.seen.contains("another language"), "{odd}");
    }
}

/// C31: a waiter behind a dead holder waits longer by a step back of the server's clock, and the doctor tells why.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c31_a_hold_from_after_the_servers_present_is_named() {
    let server = RedisServer::start_with_clock(&[]).await;
    let Some(clock) = server.clock() else { return };
    let client = client(&server.url()).await;
    for is_shared in [false, true] {
        let request = patient(&fresh_name());
        let request = if is_shared { request.shared() } else { request };
        let guard = client.acquire(request).await.expect("a free lock");
        let examined = async || client.admin().examine(guard.name().as_str()).await;
        let found = examined().await.expect("an answer");
        assert!(found.iter().all(|finding| finding.health == Health::Good), "{found:?}");
        clock.set_back(Duration::from_secs(3600));
        let found = examined().await.expect("an answer");
        let step = found.iter().find(|finding| finding.check == "clock").expect("it looks");
        assert!(step.health == Health::Risk && step.seen.contains("stepped back"), "{step}");
        clock.set_forward(Duration::ZERO);
        released(guard).await;
    }
}
