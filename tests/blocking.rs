//! The blocking client on threads: in memory, on files and on a real Redis server.

#![allow(clippy::expect_used, clippy::panic)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use leasehold::blocking::{LockClient, connect};
use leasehold::{LockError, LockRequest, LostReason};

/// Time limit of every wait.
const LIMIT: Duration = Duration::from_secs(30);

/// A TTL longer than each test, so that no lock becomes free by expiry.
const LONG: Duration = Duration::from_secs(600);

fn long(name: &str) -> LockRequest {
    LockRequest::new(name).ttl(LONG).wait(LIMIT)
}

fn client(url: &str) -> LockClient {
    connect(url).expect("a connection")
}

fn c22_threads_exclude_each_other_and_tokens_grow(url: &str) {
    const THREADS: u32 = 4;
    const TURNS: u32 = 5;
    let (clients, inside) = ([client(url), client(url)], AtomicU32::new(0));
    let turn = |locks: &LockClient| {
        let turn = locks.with(long("a"), |held| {
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two hold the lock");
            thread::yield_now();
            inside.fetch_sub(1, Ordering::SeqCst);
            held.token()
        });
        turn.expect("its turn comes").into_value().expect("it was held to the end")
    };
    let mut tokens = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|index| {
                let (locks, turn) = (&clients[index as usize % 2], &turn);
                scope.spawn(move || (0..TURNS).map(|_| turn(locks)).collect::<Vec<_>>())
            })
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| {
                let tokens = thread.join().expect("no panic");
                assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
                tokens
            })
            .collect::<Vec<_>>()
    });
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len() as u32, THREADS * TURNS, "each hold has a token of its own");
}

fn c14_a_busy_lock_is_told(url: &str) {
    let (one, two) = (client(url), client(url));
    let held = one.acquire(long("a")).expect("a free lock");
    assert!(two.try_acquire("a").expect("an answer").is_none());
    assert!(two.try_with("a", |_| panic!("it is held")).expect("an answer").is_none());
    held.release().expect("it was held");
    let swept = two.try_with("a", |held| held.name().to_string()).expect("an answer");
    assert_eq!(swept.expect("it is free").into_value().expect("it was held"), "a");
    // A wait leaves the queue a moment after its end, so no try follows it.
    let held = one.acquire(long("a")).expect("a free lock");
    let waits = LockRequest::new("a").wait(Duration::from_secs(2));
    let refused = two.acquire(waits).expect_err("it is held");
    assert!(refused.is_busy() && matches!(refused, LockError::Timeout { .. }), "{refused}");
    held.release().expect("it was held");
}

fn c20_a_dropped_guard_gives_back(url: &str) {
    let (one, two) = (client(url), client(url));
    drop(one.acquire(long("a")).expect("a free lock"));
    two.acquire(long("a")).expect("its turn comes").release().expect("it was held");
    let panicked = catch_unwind(AssertUnwindSafe(|| one.with(long("a"), |_| panic!("on purpose"))));
    assert!(panicked.is_err());
    two.acquire(long("a")).expect("its turn comes").release().expect("it was held");
}

fn c20_the_last_drop_waits_until_the_server_knows(url: &str) {
    let looks = client(url);
    for _ in 0..5 {
        let locks = client(url);
        let held = locks.acquire(long("a")).expect("a free lock");
        drop(locks);
        assert!(held.is_held(), "the guard keeps its client");
        drop(held);
        let next = looks.try_acquire(long("a")).expect("an answer");
        next.expect("it was given back").release().expect("it was held");
    }
}

fn c08_a_loss_is_told(url: &str) {
    let (one, two) = (client(url), client(url));
    let held = one.acquire(LockRequest::new("a").ttl(Duration::from_secs(6))).expect("a free lock");
    assert_eq!(held.lost(Duration::from_millis(1)), None);
    assert!(held.is_held() && held.remaining() > Duration::ZERO);
    two.block_on(async |locks| locks.admin().evict("a").await).expect("an answer");
    assert_eq!(held.lost(LIMIT), Some(LostReason::Evicted));
    assert!(!held.is_held() && held.lost_signal().is_lost());
    assert!(held.extend(LONG).is_err_and(|error| error.is_lost()));
    assert!(held.release().is_err_and(|error| error.is_lost()));
    let ended = one.with("a", |held| {
        two.block_on(async |locks| locks.admin().evict("a").await).expect("an answer");
        held.name().as_str().len()
    });
    let ended = ended.expect("a free lock");
    assert_eq!(ended.value, 1, "the value of work that has ended comes back");
    assert!(ended.hold.is_err_and(|error| error.is_lost()));
}

fn c10_a_hold_is_renewed_and_extended(url: &str) {
    let locks = client(url);
    let ttl = Duration::from_secs(6);
    let held = locks.acquire(LockRequest::new("a").ttl(ttl)).expect("a free lock");
    assert_eq!(held.lost(ttl * 3 / 2), None, "the thread of the client renews it");
    held.extend(LONG).expect("an answer");
    assert!(held.remaining() > LONG / 2);
    held.release().expect("it was held");
}

fn c36_permits_have_slots(url: &str) {
    let locks = client(url);
    let one = locks.acquire(long("a").permits(1, 3)).expect("a free permit");
    let two = locks.acquire(long("a").permits(2, 3)).expect("two free permits");
    assert_eq!((one.slots(), two.slots()), (vec![0], vec![1, 2]));
    assert!(locks.try_acquire(long("a").permits(1, 3)).expect("an answer").is_none());
}

fn a_shutdown_gives_everything_back(url: &str) {
    let (one, two) = (client(url), client(url));
    let held = ["a", "b"].map(|name| one.acquire(long(name)).expect("a free lock"));
    one.clone().shutdown();
    assert!(held.iter().all(|held| held.lost(LIMIT) == Some(LostReason::Shutdown)));
    for name in ["a", "b"] {
        assert!(two.try_acquire(long(name)).expect("an answer").is_some(), "{name} is still held");
    }
    let refused = one.acquire("a").expect_err("it is shut down");
    assert!(matches!(refused, LockError::Closed { .. }), "{refused}");
}

/// Makes a test of each case for the store of the module's `store`: its URL, and the value that keeps it alive.
macro_rules! cases {
    ($($case:ident)*) => {$(
        #[test]
        fn $case() {
            let (url, _store) = store();
            super::$case(&url);
        }
    )*};
}

mod memory {
    /// Returns a store for the test.
    fn store() -> (String, ()) {
        let name = std::thread::current().name().expect("a test has a name").to_owned();
        (format!("memory:{name}"), ())
    }

    cases! {
        c22_threads_exclude_each_other_and_tokens_grow
        c14_a_busy_lock_is_told
        c20_a_dropped_guard_gives_back
        c20_the_last_drop_waits_until_the_server_knows
        c08_a_loss_is_told
        c10_a_hold_is_renewed_and_extended
        c36_permits_have_slots
        a_shutdown_gives_everything_back
    }
}

#[cfg(feature = "redis")]
mod redis {
    use std::time::Duration;

    use leasehold::{ClientOptions, LockRequest, LostReason};
    use lock_testkit::RedisServer;
    use tokio::runtime::Runtime;

    use super::{LIMIT, LockClient, client};

    fn start() -> (Runtime, RedisServer) {
        let runtime = Runtime::new().expect("a runtime");
        let server = runtime.block_on(RedisServer::start());
        (runtime, server)
    }

    /// C8, C17: the loss is reported without the server.
    #[test]
    fn c08_a_loss_is_told_when_the_server_stands_still() {
        let (_runtime, server) = start();
        let options = ClientOptions::new().request_timeout(Duration::from_secs(2));
        let url = server.url();
        let open = leasehold::connect_with(&url, options);
        let locks = LockClient::open(open).expect("a connection");
        let held = locks.acquire(LockRequest::new("a").ttl(Duration::from_secs(4)));
        let held = held.expect("a free lock");
        server.stop();
        assert_eq!(held.lost(LIMIT), Some(LostReason::Expired));
        assert!(!held.is_held());
        let silent = locks.try_acquire("a").expect_err("nobody answers");
        assert!(silent.is_transient(), "{silent}");
        server.cont();
        client(&url).acquire("a").expect("its turn comes").release().expect("it was held");
    }
}

#[test]
fn c20_a_guard_keeps_its_client() {
    let locks = client("memory:");
    let held = locks.acquire(LockRequest::new("a").ttl(Duration::from_secs(6)));
    let held = held.expect("a free lock");
    drop((locks.clone(), locks));
    assert_eq!(held.lost(Duration::from_secs(8)), None, "the thread of the client renews it");
    held.extend(LONG).expect("an answer");
}

#[test]
fn c18_a_bad_url_is_an_error() {
    let refused = connect("nowhere:").expect_err("no such scheme");
    assert!(matches!(refused, LockError::Config { .. }), "{refused}");
}

#[tokio::test]
async fn threads_that_may_block_may_call_within_a_runtime() {
    let call = || {
        let locks = client("memory:");
        locks.with("a", |held| held.is_held()).expect("a free lock").into_value()
    };
    let held = tokio::task::spawn_blocking(call).await.expect("no panic");
    assert!(held.expect("it was held"));
}

#[tokio::test]
async fn a_call_of_a_task_panics_and_a_drop_does_not() {
    let locks = tokio::task::spawn_blocking(|| client("memory:")).await.expect("no panic");
    let called = catch_unwind(AssertUnwindSafe(|| locks.try_acquire("a").is_ok()));
    assert!(called.is_err(), "a task was blocked");
    let opened = catch_unwind(|| connect("memory:").is_ok());
    assert!(opened.is_err(), "a task was blocked");
    drop(locks);
}
