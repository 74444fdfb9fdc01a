//! Tests of holds that pass from one task of a client to the next, at every position.

#![allow(clippy::expect_used, clippy::panic)]

mod leaving;

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use lock_core::backend::FALLBACK_POLL;
use lock_core::testing::FakeClock;
use lock_core::{
    ClientOptions, FencingToken, LockClient, LockError, LockGuard, LockRequest, LostReason,
    MemoryBackend, Wait,
};
use lock_testkit::{Fault, Faulty, Operation, eventually};
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_secs(10);

struct Store {
    memory: MemoryBackend,
    faulty: Faulty,
    locks: LockClient,
}

/// An acquisition that waits.
type Waiting<'a> = Pin<Box<dyn Future<Output = Result<LockGuard, LockError>> + 'a>>;

impl Store {
    fn new() -> Self {
        Self::with_options(ClientOptions::new())
    }

    fn with_options(options: ClientOptions) -> Self {
        let memory = MemoryBackend::new();
        let faulty = Faulty::new(Arc::new(memory.clone()));
        let locks = LockClient::with_options(faulty.clone(), options.ttl(TTL));
        Self { memory, faulty, locks }
    }

    async fn hold(&self) -> LockGuard {
        // After this time more tokens can be reserved behind the last one.
        std::thread::sleep(Duration::from_millis(1));
        self.locks.acquire("a").await.expect("its turn comes")
    }

    /// Fails if another client cannot acquire the lock.
    async fn assert_free(&self) {
        let free = LockClient::new(self.memory.clone()).try_acquire("a").await;
        assert!(free.expect("an answer").is_some(), "the lock is still held");
    }

    fn grants_asked(&self) -> usize {
        self.faulty.calls(Operation::Acquire)
    }

    /// Returns the next holder, after the release of `first`, and the waiter behind it: so reserved tokens are
    /// left.
    async fn two_after(&self, first: LockGuard) -> (LockGuard, Waiting<'_>) {
        let mut second: Waiting<'_> = Box::pin(self.locks.acquire("a"));
        let mut third: Waiting<'_> = Box::pin(self.locks.acquire("a"));
        assert!((&mut second).now_or_never().is_none(), "it waits");
        assert!((&mut third).now_or_never().is_none(), "it waits");
        std::thread::sleep(Duration::from_millis(1));
        first.release().await.expect("held to the end");
        let second = second.await.expect("its turn comes");
        assert_eq!(self.grants_asked(), 1, "it was passed on");
        (second, third)
    }

    /// Returns the outcome of `next`, which waits for its turn, after the release of `first`.
    async fn after<T>(&self, first: LockGuard, next: impl Future<Output = T>) -> T {
        tokio::join!(next, async {
            tokio::task::yield_now().await;
            std::thread::sleep(Duration::from_millis(1));
            first.release().await.expect("held to the end");
        })
        .0
    }
}

/// C26: one request to the server serves a whole local queue, and each task has its own guard and token.
#[tokio::test(start_paused = true)]
async fn c26_a_hold_passes_along_the_line_without_a_grant() {
    let (store, log) = (Store::new(), Mutex::new(Vec::new()));
    let first = store.hold().await;
    let tasks = (0..10).map(async |task| {
        let guard = store.locks.acquire("a").await.expect("its turn comes");
        log.lock().expect("no panic").push((task, guard.token()));
        guard.release().await.expect("held to the end");
    });
    let token = first.token();
    store.after(first, join_all(tasks)).await;
    let log = log.into_inner().expect("no panic");
    assert!(log.iter().map(|(task, _)| *task).eq(0..10), "first come, first served: {log:?}");
    let tokens: Vec<FencingToken> = [token].into_iter().chain(log.iter().map(|l| l.1)).collect();
    assert!(tokens.is_sorted_by(|one, two| one < two), "{tokens:?}");
    assert_eq!(store.grants_asked(), 1);
    assert_eq!(store.faulty.calls(Operation::Release), 2, "one reserves, and the last one ends it");
}

/// C26: tasks that return to a hot lock cost no further request.
#[tokio::test(start_paused = true)]
async fn c26_a_hold_passes_to_tasks_that_come_back() {
    let store = Store::new();
    let first = store.hold().await;
    let tasks = (0..4).map(async |_| {
        for _ in 0..4 {
            let guard = store.locks.acquire("a").await.expect("its turn comes");
            guard.release().await.expect("held to the end");
        }
    });
    store.after(first, join_all(tasks)).await;
    assert_eq!(store.grants_asked(), 1);
    assert_eq!(store.faulty.calls(Operation::Release), 2, "one reserves, and the last one ends it");
}

/// C26: a client keeps a lock for at most 64 passes while another client waits.
#[tokio::test(start_paused = true)]
async fn c26_a_line_yields_to_other_clients_after_64_passes() {
    let (store, served) = (Store::new(), Mutex::new(0));
    let other = LockClient::new(store.memory.clone());
    let first = store.hold().await;
    let theirs = tokio::spawn(async move {
        let guard = other.acquire("a").await.expect("its turn comes");
        guard.release().await.expect("held to the end");
    });
    eventually("it queues", SECOND, async || {
        store.locks.admin().inspect("a").await.is_ok_and(|state| state.waiters == Some(1))
    })
    .await;
    let tasks = (0..200).map(async |_| {
        let guard = store.locks.acquire("a").await.expect("its turn comes");
        if !theirs.is_finished() {
            *served.lock().expect("no panic") += 1;
        }
        guard.release().await.expect("held to the end");
    });
    store.after(first, join_all(tasks)).await;
    let served = served.into_inner().expect("no panic");
    assert!((1..=65).contains(&served), "{served} went before the other client");
}

/// C26: a client keeps a lock for at most 20 ms while another client waits, however many tokens are left.
#[tokio::test(start_paused = true)]
async fn c26_a_line_yields_to_other_clients_after_20_ms() {
    let store = Store::new();
    let other = LockClient::new(store.memory.clone());
    let first = store.hold().await;
    let theirs = tokio::spawn(async move { other.acquire("a").await.expect("its turn comes") });
    let (second, third) = store.two_after(first).await;
    sleep(Duration::from_millis(21)).await;
    let token = second.token();
    let released = Instant::now();
    second.release().await.expect("held to the end");
    let theirs = theirs.await.expect("the other client is next");
    assert!(theirs.token() > token && released.elapsed() < SECOND, "only the TTL let it in");
    theirs.release().await.expect("held to the end");
    third.await.expect("its turn comes").release().await.expect("held to the end");
}

/// A client may disable passing.
#[tokio::test(start_paused = true)]
async fn a_client_without_local_hand_off_asks_for_each_grant() {
    let store = Store::with_options(ClientOptions::new().local_hand_off(false));
    let first = store.hold().await;
    let second = async { store.locks.acquire("a").await.expect("its turn comes") };
    store.after(first, second).await.release().await.expect("held to the end");
    assert_eq!(store.grants_asked(), 2);
}

/// C28: a hold does not pass to a task with a shorter TTL: if that task died, others would wait longer.
#[tokio::test(start_paused = true)]
async fn c28_a_waiter_with_a_shorter_ttl_is_granted_its_own_hold() {
    let store = Store::new();
    let first = store.hold().await;
    let request = LockRequest::new("a").ttl(TTL / 2);
    let second = async { store.locks.acquire(request).await.expect("its turn comes") };
    let second = store.after(first, second).await;
    assert!(second.remaining() <= TTL / 2);
    assert_eq!(store.grants_asked(), 2);
}

/// C5, C6: a hold whose TTL is nearly over, as after a suspend, is not passed on.
#[tokio::test(start_paused = true)]
async fn c05_a_hold_that_is_nearly_over_is_not_passed_on() {
    let clock = Arc::new(FakeClock::new());
    let store = Store::with_options(ClientOptions::new().clock(clock.clone()));
    store.faulty.always(Operation::Extend, Fault::Refused);
    let first = store.hold().await;
    let mut second = Box::pin(store.locks.acquire("a"));
    assert!((&mut second).now_or_never().is_none(), "it waits");
    std::thread::sleep(Duration::from_millis(1));
    clock.suspend(first.remaining() - TTL / 20);
    first.release().await.expect("held to the end");
    let second = second.await.expect("its turn comes");
    assert!(second.remaining() > TTL / 2, "{:?}", second.remaining());
    assert_eq!(store.grants_asked(), 2);
}

/// C12: a passed hold bears an outage as long as each other: two thirds of its TTL are left, or it is not passed on.
#[tokio::test(start_paused = true)]
async fn c12_a_hold_that_is_passed_on_has_two_thirds_of_its_ttl() {
    for (used, passes) in [(TTL * 3 / 10, true), (TTL * 4 / 10, false), (TTL * 8 / 10, false)] {
        let clock = Arc::new(FakeClock::new());
        let store = Store::with_options(ClientOptions::new().clock(clock.clone()));
        store.faulty.always(Operation::Extend, Fault::Refused);
        let first = store.hold().await;
        let mut second = Box::pin(store.locks.acquire("a"));
        assert!((&mut second).now_or_never().is_none(), "it waits");
        std::thread::sleep(Duration::from_millis(1));
        clock.suspend(used);
        first.release().await.expect("held to the end");
        let second = second.await.expect("its turn comes");
        assert_eq!(store.grants_asked() == 1, passes, "after {used:?}");
        assert!(second.remaining() > TTL * 13 / 20, "after {used:?}: {:?}", second.remaining());
    }
}

/// C12: a passed hold is renewed when its former holder would have renewed it.
#[tokio::test(start_paused = true)]
async fn c12_a_pass_puts_off_no_renewal() {
    let clock = Arc::new(FakeClock::new());
    let store = Store::with_options(ClientOptions::new().clock(clock.clone()));
    let first = store.hold().await;
    let mut second = Box::pin(store.locks.acquire("a"));
    assert!((&mut second).now_or_never().is_none(), "it waits");
    std::thread::sleep(Duration::from_millis(1));
    clock.suspend(TTL * 3 / 10);
    first.release().await.expect("held to the end");
    let second = second.await.expect("its turn comes");
    assert_eq!(store.grants_asked(), 1, "it was passed on");
    clock.advance(TTL / 20);
    eventually("it is renewed", SECOND, async || second.remaining() > TTL * 9 / 10).await;
}

/// C10: a lost hold does not pass on, even if tokens are left.
#[tokio::test(start_paused = true)]
async fn c10_a_lost_hold_is_not_passed_on() {
    let store = Store::new();
    let first = store.hold().await;
    let (second, third) = store.two_after(first).await;
    store.locks.admin().evict("a").await.expect("an answer");
    second.extend(TTL).await.expect_err("it was lost");
    assert_eq!(second.lost().now_or_never(), Some(LostReason::Evicted));
    second.release().await.expect_err("it was lost");
    let third = third.await.expect("its turn comes");
    assert!(third.is_held());
    assert_eq!(store.grants_asked(), 2, "by a grant of its own");
}

/// C12: a passed hold is renewed, and can be extended, under the server's token.
#[tokio::test(start_paused = true)]
async fn c12_a_hold_that_was_passed_on_is_renewed() {
    let store = Store::new();
    let first = store.hold().await;
    let second = store.after(first, async { store.locks.acquire("a").await.expect("its turn") });
    let second = second.await;
    sleep(TTL * 3).await;
    assert!(second.is_held());
    second.extend(TTL * 2).await.expect("held");
    assert!(second.remaining() > TTL);
    second.release().await.expect("held to the end");
}

/// The lease of a passed hold can be handed to another client, with its own token.
#[tokio::test(start_paused = true)]
async fn c12_a_lease_that_was_passed_on_is_attached_elsewhere() {
    let store = Store::new();
    let first = store.hold().await;
    let second = store.after(first, async { store.locks.acquire("a").await.expect("its turn") });
    let second = second.await;
    let token = second.token();
    let text = second.detach().expect("held").export();
    let other = LockClient::new(store.memory.clone());
    let lease = lock_core::Lease::import(&text).expect("a lease");
    let guard = other.attach(lease).await.expect("held");
    assert_eq!(guard.token(), token);
    let waits = store.locks.acquire(LockRequest::new("a").wait(Wait::AtMost(SECOND)));
    assert!(matches!(waits.await, Err(LockError::Timeout { .. })), "a detached lease is held on");
    guard.release().await.expect("held to the end");
}

/// L1: the guard of a lost hold keeps no task of its client from a free lock, however long its turn would have lasted.
#[tokio::test(start_paused = true)]
async fn l1_a_guard_that_lost_its_hold_keeps_no_task_of_its_client_out() {
    let store = Store::new();
    let rival = LockClient::new(store.memory.clone());
    let held = rival.acquire("a").await.expect("a free lock");
    let hangs = async {
        let hung = store.hold().await;
        rival.admin().evict("a").await.expect("an answer");
        hung.lost().await;
        let lost_at = Instant::now();
        sleep(SECOND * 600).await;
        lost_at
    };
    let waits = async {
        sleep(SECOND).await;
        drop(store.hold().await);
        Instant::now()
    };
    let releases = async {
        sleep(SECOND * 240).await;
        held.release().await.expect("held to the end");
    };
    let (lost_at, got_in, ()) = tokio::join!(hangs, waits, releases);
    assert!(got_in - lost_at <= FALLBACK_POLL, "it waited for {:?}", got_in - lost_at);
}

/// C26: a line keeps its one place while its head waits for its holder.
#[tokio::test(start_paused = true)]
async fn c26_a_line_stays_behind_a_head_that_waits_for_its_holder() {
    let store = Store::new();
    let rival = LockClient::new(store.memory.clone());
    let held = rival.acquire("a").await.expect("a free lock");
    let task = async |_| {
        let guard = store.hold().await;
        sleep(SECOND * 12).await;
        guard.release().await.expect("held to the end");
    };
    let sees = async {
        sleep(SECOND * 60).await;
        held.release().await.expect("held to the end");
        for _ in 0..10 {
            sleep(SECOND).await;
            let state = rival.admin().inspect("a").await.expect("an answer");
            assert!(state.waiters <= Some(1), "{:?} places of one client", state.waiters);
        }
    };
    tokio::join!(join_all((0..100).map(task)), sees);
}
