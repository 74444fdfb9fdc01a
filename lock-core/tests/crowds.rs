//! Many waiters of one client whose holds allow others beside them.

#![allow(clippy::expect_used, clippy::panic)]

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use lock_core::{ClientOptions, LockClient, LockError, LockRequest, MemoryBackend, Wait};
use lock_testkit::{Fault, Faulty, Operation, eventually};
use tokio::time::{Instant, sleep};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const ROUND_TRIP: Duration = Duration::from_millis(10);

struct Store {
    faulty: Faulty,
    locks: LockClient,
    other: LockClient,
}

impl Store {
    /// Creates a server whose answers take a round trip, and another client whose answers arrive at once.
    fn new() -> Self {
        let memory = MemoryBackend::new();
        let faulty = Faulty::new(Arc::new(memory.clone()));
        faulty.always(Operation::Acquire, Fault::Late(ROUND_TRIP));
        Self { locks: LockClient::new(faulty.clone()), other: LockClient::new(memory), faulty }
    }

    fn asked(&self) -> usize {
        self.faulty.calls(Operation::Acquire)
    }

    async fn waiters(&self) -> u64 {
        let state = self.other.admin().inspect("a").await.expect("an answer");
        state.waiters.expect("a queue")
    }

    /// Lets `count` tasks acquire `request` and release it after `held`; returns the time until all had it.
    async fn crowd(&self, count: usize, request: LockRequest, held: Duration) -> Duration {
        let began = Instant::now();
        let task = async |_| {
            let guard = self.locks.acquire(request.clone()).await.expect("its turn comes");
            let took = began.elapsed();
            sleep(held).await;
            guard.release().await.expect("held to the end");
            took
        };
        join_all((0..count).map(task)).await.into_iter().max().expect("a task")
    }
}

/// C26: while the server grants, nobody of a line waits for the answer to another.
#[tokio::test(start_paused = true)]
async fn c26_a_crowd_that_fits_gets_in_by_one_round_trip() {
    for request in [LockRequest::new("a").permits(1, 100), LockRequest::new("a").shared()] {
        let store = Store::new();
        let took = store.crowd(100, request, SECOND).await;
        assert!(took <= ROUND_TRIP * 3 / 2, "{took:?}");
        assert_eq!(store.asked(), 100, "one request each");
    }
}

/// C26: a grant to the one place on the server lets in all readers of the line.
#[tokio::test(start_paused = true)]
async fn c26_readers_behind_a_writer_get_in_together() {
    let store = Store::new();
    let writer = store.other.acquire("a").await.expect("a free lock");
    let released = async {
        sleep(SECOND).await;
        assert_eq!(store.waiters().await, 1, "the line has several places");
        writer.release().await.expect("held to the end");
    };
    let readers = store.crowd(200, LockRequest::new("a").shared(), SECOND);
    let (took, ()) = tokio::join!(readers, released);
    assert!(took - SECOND <= ROUND_TRIP * 4, "{took:?}");
}

/// C26: a crowd has one place, and sends few requests, while the lock is busy.
#[tokio::test(start_paused = true)]
async fn c26_a_crowd_of_readers_waits_in_one_place() {
    let store = Store::new();
    let writer = store.other.acquire("a").await.expect("a free lock");
    let sees = async {
        for _ in 0..20 {
            sleep(SECOND / 10).await;
            assert_eq!(store.waiters().await, 1, "the line has several places");
        }
        let asked = store.asked();
        assert!(asked <= 104, "{asked} requests while the lock is busy");
        writer.release().await.expect("held to the end");
    };
    let readers = store.crowd(10_000, LockRequest::new("a").shared(), MS);
    let (took, ()) = tokio::join!(readers, sees);
    assert!(took < SECOND * 4, "{took:?}");
    assert_eq!(store.faulty.calls(Operation::Withdraw), 0, "a refused request leaves nothing");
}

/// C34: a writer in line is passed by no reader behind it.
#[tokio::test(start_paused = true)]
async fn c34_readers_do_not_pass_a_writer_of_their_client() {
    let (store, log) = (Store::new(), RefCell::new(Vec::new()));
    let task = async |number: usize| {
        let request = LockRequest::new("a");
        let request = if number % 3 == 2 { request } else { request.shared() };
        let guard = store.locks.acquire(request).await.expect("its turn comes");
        log.borrow_mut().push((number, guard.token()));
        sleep(MS * 30).await;
        guard.release().await.expect("held to the end");
    };
    join_all((0..30).map(task)).await;
    let log = log.into_inner();
    // 0 1 | 2 | 3 4 | 5 | …: readers together, and each writer after all before it.
    let turn_of = |number: usize| number / 3 * 2 + number % 3 / 2;
    assert!(log.iter().map(|(number, _)| turn_of(*number)).is_sorted(), "{log:?}");
    let writers: Vec<_> = log.iter().filter(|(number, _)| number % 3 == 2).collect();
    assert!(writers.iter().map(|(_, token)| token).is_sorted(), "{writers:?}");
}

/// C26: a pool that is always full costs few requests a grant.
#[tokio::test(start_paused = true)]
async fn c26_a_full_pool_costs_few_requests_a_grant() {
    const TASKS: usize = 500;
    let store = Store::new();
    store.crowd(TASKS, LockRequest::new("a").permits(1, 5), MS * 20).await;
    let asked = store.asked();
    assert!(asked <= TASKS * 2, "{asked} requests for {TASKS} grants");
}

/// C26: readers that share a lock with writers of another client ask few times in vain.
#[tokio::test(start_paused = true)]
async fn c26_readers_beside_waiting_writers_ask_few_times_in_vain() {
    const READERS: usize = 60;
    let store = Store::new();
    let (writers, ends) = (store.other.clone(), tokio::sync::watch::channel(false));
    let write = async |_| {
        while !*ends.1.borrow() {
            let guard = writers.acquire("a").await.expect("its turn comes");
            sleep(MS * 5).await;
            guard.release().await.expect("held to the end");
        }
    };
    let other = LockClient::new(store.faulty.clone());
    let write_too = async {
        while !*ends.1.borrow() {
            let guard = other.acquire("a").await.expect("its turn comes");
            guard.release().await.expect("held to the end");
        }
    };
    let readers = async {
        eventually("a writer holds it", SECOND, async || {
            let state = store.other.admin().inspect("a").await;
            state.is_ok_and(|state| state.holder().is_some())
        })
        .await;
        store.crowd(READERS, LockRequest::new("a").shared(), MS * 5).await;
        ends.0.send_replace(true);
    };
    tokio::join!(readers, join_all((0..3).map(write)), write_too);
    // The other writer asks about twice a turn.
    let asked = store.asked();
    assert!(asked <= 100 + READERS * 6, "{asked} requests");
}

/// C17: a crowd sends few requests to a server that is silent, and each of its callers learns of that.
#[tokio::test(start_paused = true)]
async fn c17_a_crowd_at_a_silent_server_ends_in_time() {
    let store = Store::new();
    store.faulty.always(Operation::Acquire, Fault::Silence);
    let (began, request) = (Instant::now(), LockRequest::new("a").shared().wait(SECOND * 3));
    for ended in join_all((0..300).map(|_| store.locks.acquire(request.clone()))).await {
        let error = ended.expect_err("no answer");
        assert!(error.is_transient() && !error.is_busy(), "{error}");
    }
    assert!(began.elapsed() <= SECOND * 31 / 10, "{:?}", began.elapsed());
}

/// C19: readers that leave while they ask beside the head leave nothing on the server.
#[tokio::test(start_paused = true)]
async fn c19_readers_that_leave_at_any_time_leave_nothing() {
    for leave in [1, 5, 11, 15, 25] {
        let store = Store::new();
        let request = LockRequest::new("a").shared();
        let leaves = |number: u32| MS * (leave * (number % 3 + 1));
        let task =
            |number| tokio::time::timeout(leaves(number), store.locks.acquire(request.clone()));
        drop(join_all((0..50).map(task)).await);
        store.locks.shutdown().await;
        let state = store.other.admin().inspect("a").await.expect("an answer");
        assert!(state.holders.is_empty() && state.waiters == Some(0), "{leave}: {state:?}");
    }
}

/// C26: a line keeps its one place while its head waits for a slow answer, however long a request may take.
#[tokio::test(start_paused = true)]
async fn c26_a_line_outlasts_slow_answers() {
    let store = Store::new();
    let options = ClientOptions::new().request_timeout(SECOND * 60);
    let locks = LockClient::with_options(store.faulty.clone(), options);
    store.faulty.always(Operation::Acquire, Fault::Late(SECOND * 25));
    let _held = store.other.acquire("a").await.expect("a free lock");
    let wait = LockRequest::new("a").ttl(SECOND * 300).wait(Wait::AtMost(SECOND * 100));
    let waits = join_all((0..1_000).map(|_| locks.acquire(wait.clone()))).await;
    assert!(waits.iter().all(|waited| waited.as_ref().is_err_and(LockError::is_busy)));
    assert!(store.asked() < 10, "{} requests", store.asked());
}
