//! Simultaneous requests of a client's tasks go to the server as one call: each lock has its own answer.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::{FutureExt, join_all};
use leasehold::core::LockAdmin;
use leasehold::core::backend::{Attempt, Release};
use leasehold::redis::RedisBackend;
use leasehold::{DistributedLock, LockClient, LockError, LockGuard, LockRequest};
use lock_testkit::{RedisServer, Reply};

use crate::access::RIGHTS;
use crate::resources::calls;
use crate::support::{
    MINUTE, SECRET, Waiting, client, client_of, connected, fresh_name, held, patient, queued,
    released, served, turn,
};

const MANY: usize = 20;

/// Returns locks that have their counters.
async fn used_locks(client: &LockClient) -> Vec<String> {
    let names: Vec<String> = (0..MANY).map(|_| fresh_name()).collect();
    join_all(names.iter().map(|name| turn(client, name))).await;
    names
}

async fn all_held(client: &LockClient, names: &[String]) -> Vec<LockGuard> {
    join_all(names.iter().map(|name| held(client, name))).await
}

async fn all_released(guards: Vec<LockGuard>) {
    join_all(guards.into_iter().map(released)).await;
}

/// Tries all locks at once.
async fn all_tried(
    client: &LockClient,
    names: &[String],
) -> Vec<Result<Option<LockGuard>, LockError>> {
    join_all(names.iter().map(|name| client.try_acquire(patient(name)))).await
}

fn counter(name: &str) -> String {
    format!("{{{name}}}:fence")
}

fn is_there(server: &RedisServer, key: &str) -> bool {
    server.cli(&["EXISTS", key]) == Reply::Integer(1)
}

/// C22: each lock is held on the server under its own next token, and released.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_locks_that_are_asked_for_together_have_tokens_of_their_own() {
    let server = RedisServer::start().await;
    let client = client(&server.url()).await;
    let names = used_locks(&client).await;
    for (i, name) in names.iter().enumerate() {
        server.cli(&["SET", &counter(name), &format!("{}", 9_007_199_254_740_000 + i)]);
    }
    let before = calls(&server)["evalsha"];
    let guards = all_held(&client, &names).await;
    let requests = calls(&server)["evalsha"] - before;
    assert!(requests < MANY as u64, "{requests} requests");
    for (i, guard) in guards.iter().enumerate() {
        assert_eq!(guard.token().get(), 9_007_199_254_740_001 + i as u64);
        let state = client.admin().inspect(&names[i]).await.expect("an answer");
        assert_eq!(state.holder().and_then(|holder| holder.token), Some(guard.token()));
    }
    all_released(guards).await;
    assert!(names.iter().all(|name| !is_there(&server, name)));
}

/// Holds all locks, while another client waits for half of them; returns the guards and the waits.
async fn half_wanted(
    holder: &LockClient,
    waiter: &LockClient,
    names: &[String],
) -> (Vec<LockGuard>, Vec<Waiting>) {
    let guards = all_held(holder, names).await;
    let wanted = names.iter().skip(MANY / 2);
    let waiting = wanted.map(|name| queued(waiter, holder, patient(name), name));
    (guards, join_all(waiting).await)
}

/// Returns true if `given` is `true` in its second half only.
fn is_second_half(given: impl Iterator<Item = bool>) -> bool {
    given.enumerate().all(|(i, given)| given == (i >= MANY / 2))
}

/// C14: only its owner ends a hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c14_a_release_in_company_ends_no_hold_of_another() {
    let server = RedisServer::start().await;
    let holder = client(&server.url()).await;
    let names = used_locks(&holder).await;
    let guards = all_held(&holder, &names).await;
    let other = leasehold::backend(&server.url()).await.expect("a connection");
    let claims = names.iter().map(|name| LockRequest::new(name.as_str()).claim().expect("a claim"));
    let releases = claims.map(|claim| {
        let other = other.clone();
        async move { other.release(&claim.name, claim.owner).await.expect("an answer") }
    });
    for release in join_all(releases).await {
        assert_eq!(release, Release::NotHeld);
    }
    assert!(names.iter().all(|name| is_there(&server, name)));
    all_released(guards).await;
}

/// C27: a waiter that a batched release overlooked would look at the server up to a second later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c27_a_release_in_company_lets_the_next_one_in() {
    let server = RedisServer::start().await;
    let (holder, waiter) = (client(&server.url()).await, client(&server.url()).await);
    let names = used_locks(&holder).await;
    let (guards, waiting) = half_wanted(&holder, &waiter, &names).await;
    all_released(guards).await;
    assert!(is_second_half(names.iter().map(|name| is_there(&server, name))));
    for waiting in waiting {
        released(served(waiting).await).await;
    }
}

/// C27: locks whose keys are gone belong to their waiters, and not to a batch of newcomers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c27_newcomers_in_company_do_not_pass_the_queue() {
    let server = RedisServer::start().await;
    let (holder, waiter) = (client(&server.url()).await, client(&server.url()).await);
    let names = used_locks(&holder).await;
    let (guards, waiting) = half_wanted(&holder, &waiter, &names).await;
    server.cli(&[&["DEL"], &*names.iter().map(String::as_str).collect::<Vec<_>>()].concat());
    let newcomer = client(&server.url()).await;
    let tried = all_tried(&newcomer, &names).await;
    assert!(is_second_half(tried.iter().map(|tried| matches!(tried, Ok(None)))), "{tried:?}");
    for waiting in waiting {
        released(served(waiting).await).await;
    }
    drop(guards);
}

/// C22: the first token of each lock is the time, and a key of another type in place of a counter stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_new_locks_in_company_begin_at_the_time() {
    let server = RedisServer::start().await;
    let client = client(&server.url()).await;
    let names: Vec<String> = (0..MANY).map(|_| fresh_name()).collect();
    let odd = names.last().expect("a name");
    server.cli(&["LPUSH", &counter(odd), "x"]);
    let begun = SystemTime::now();
    let tried = all_tried(&client, &names).await;
    for (name, tried) in names.iter().zip(&tried) {
        match tried {
            Ok(Some(guard)) => {
                let time = UNIX_EPOCH + Duration::from_micros(guard.token().get());
                assert!(time > begun - MINUTE && time < begun + MINUTE, "{time:?}");
                let counted = server.cli(&["GET", &counter(name)]);
                assert_eq!(counted, Reply::Text(guard.token().to_string()));
            }
            _ => assert_eq!(name, odd, "{tried:?}"),
        }
    }
    assert_eq!(server.cli(&["TYPE", &counter(odd)]).to_string(), "list");
    assert!(!is_there(&server, odd));
}

/// A lock that fails does not affect the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_damaged_counter_in_company_is_an_error_of_its_lock_alone() {
    let server = RedisServer::start().await;
    let client = client(&server.url()).await;
    let names = used_locks(&client).await;
    let garbage = ["x", "-1", "1.5", "0x10", " 7", "", "9007199254740991", "9007199254740992"];
    for (name, garbage) in names.iter().zip(garbage) {
        server.cli(&["SET", &counter(name), garbage]);
    }
    let tried = all_tried(&client, &names).await;
    for (i, (name, tried)) in names.iter().zip(&tried).enumerate() {
        let is_damaged = i < garbage.len();
        assert_eq!(is_damaged, matches!(tried, Err(LockError::Backend { .. })), "{i}: {tried:?}");
        assert_eq!(is_damaged, !is_there(&server, name), "{i}: {tried:?}");
    }
}

/// S3: if several tasks want one lock at once, one gets it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_one_lock_that_is_asked_for_many_times_in_company_is_held_once() {
    let server = RedisServer::start().await;
    // One client would ask once at a time.
    let backend = connected(&server.url()).await;
    let clients: Vec<_> = (0..MANY).map(|_| client_of(backend.clone())).collect();
    let mut names = vec![fresh_name(); MANY];
    turn(&clients[0], &names[0]).await;
    // The first request goes alone, and the others find the lock free.
    names[0] = fresh_name();
    for _ in 0..20 {
        let tried =
            clients.iter().zip(&names).map(|(client, name)| client.try_acquire(patient(name)));
        let tried = join_all(tried).await.into_iter().skip(1);
        let mut granted = tried.filter_map(|tried| tried.expect("an answer"));
        released(granted.next().expect("it was free")).await;
        assert!(granted.next().is_none(), "two hold it");
    }
}

/// If a server refuses or has forgotten the batch call, each lock is requested alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_refuses_company_is_asked_for_each_lock() {
    let server = RedisServer::start().await;
    let secret = format!(">{SECRET}");
    server
        .cli(&[&["ACL", "SETUSER", "able", "on", &secret, "resetchannels"], &RIGHTS[..]].concat());
    let client = client(&format!("redis://able:{SECRET}@{}", server.addr())).await;
    let names = used_locks(&client).await;
    for command in [&["SCRIPT", "FLUSH"][..], &["ACL", "SETUSER", "able", "-mget"]] {
        server.cli(command);
        let guards = all_held(&client, &names).await;
        assert!(names.iter().all(|name| is_there(&server, name)));
        all_released(guards).await;
        assert!(names.iter().all(|name| !is_there(&server, name)));
    }
}

/// C17: a caller with a single request reads the socket itself, and may not be polled after that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c17_a_caller_that_nobody_polls_holds_up_no_other() {
    let server = RedisServer::start().await;
    let lock = RedisBackend::connect(&server.url()).await.expect("a connection");
    let claims = [0; 3].map(|_| patient(&fresh_name()).claim().expect("a good claim"));
    let [alone, others @ ..] = &claims;
    for _ in 0..MANY {
        let mut unpolled = lock.acquire(alone, None);
        // A busy machine may answer within the first poll.
        let early = (&mut unpolled).now_or_never();
        for other in others {
            lock.inspect(&other.name).await.expect("an answer");
        }
        let granted = match early {
            Some(granted) => granted,
            None => unpolled.await,
        };
        assert!(matches!(granted, Ok(Attempt::Granted(_))), "{granted:?}");
        let released = lock.release(&alone.name, alone.owner).await.expect("an answer");
        assert_eq!(released, Release::Released);
    }
}
