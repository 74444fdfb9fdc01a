//! Callers that give up repeatedly: a client's local queue has one place on the server, and one request at a
//! time.

#![allow(clippy::expect_used, clippy::panic)]

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::FutureExt;
use futures_util::future::join_all;
use lock_core::backend::FALLBACK_POLL;
use lock_core::{
    Clock, LockClient, LockError, LockName, LockRequest, MemoryBackend, Moment, SystemClock, Wait,
};
use lock_testkit::{Fault, Faulty, Operation};
use tokio::runtime::Builder;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout};

const MS: Duration = Duration::from_millis(1);
const ROUND_TRIP: Duration = Duration::from_millis(5);
const TTL: Duration = Duration::from_secs(10);

struct Store {
    memory: MemoryBackend,
    faulty: Faulty,
    locks: LockClient,
}

impl Store {
    /// Creates a server whose answers take a round trip.
    fn new() -> Self {
        let memory = MemoryBackend::new();
        let faulty = Faulty::new(Arc::new(memory.clone()));
        faulty.always(Operation::Acquire, Fault::Late(ROUND_TRIP));
        Self { locks: LockClient::new(faulty.clone()), memory, faulty }
    }

    /// Returns another client, whose answers arrive at once.
    fn other(&self) -> LockClient {
        LockClient::new(self.memory.clone())
    }

    async fn waiters(&self) -> u64 {
        let state = self.other().admin().inspect("a").await.expect("an answer");
        state.waiters.expect("a queue")
    }

    fn asked(&self) -> usize {
        self.faulty.calls(Operation::Acquire)
    }
}

fn patient(wait: Duration) -> LockRequest {
    LockRequest::new("a").ttl(TTL).wait(Wait::AtMost(wait))
}

/// Lets 200 callers give up 20 times each; returns the requests and withdrawals, and the greatest possible number
/// of sequential requests.
async fn storm(store: &Store, request: impl Fn(usize) -> LockRequest) -> (usize, usize, usize) {
    let began = Instant::now();
    let caller = async |caller: usize| {
        for round in 0..20 {
            let gave_up = store.locks.acquire(request(caller + round)).await;
            assert!(matches!(gave_up, Err(LockError::Timeout { .. })), "{gave_up:?}");
            assert!(store.waiters().await <= 1, "the line has several places");
        }
    };
    join_all((0..200).map(caller)).await;
    let in_turn = began.elapsed().as_millis() / ROUND_TRIP.as_millis() + 1;
    let withdrawn = store.faulty.calls(Operation::Withdraw);
    (store.asked(), withdrawn, usize::try_from(in_turn).expect("a few"))
}

/// C26: one answer serves each head that takes over the place, until the next look at the server is due.
#[tokio::test(start_paused = true)]
async fn c26_an_answer_serves_the_heads_after_it() {
    let store = Store::new();
    let holder = store.other().acquire("a").await.expect("a free lock");
    let began = Instant::now();
    let (asked, withdrawn, _) = storm(&store, |_| patient(ROUND_TRIP * 4)).await;
    let seconds = usize::try_from(began.elapsed().as_secs()).expect("a few");
    assert!(asked <= 2 * (seconds + 1), "{asked} requests in {:?}", began.elapsed());
    assert!(withdrawn <= 20, "{withdrawn} withdrawals");
    holder.release().await.expect("held to the end");
    drop(store.locks.acquire(patient(ROUND_TRIP * 2)).await.expect("it is free"));
}

/// C26: each head leaves before its answer, and the next head waits for the same answer.
#[tokio::test(start_paused = true)]
async fn c26_a_storm_costs_the_server_one_request_at_a_time() {
    let store = Store::new();
    let holder = store.other().acquire("a").await.expect("a free lock");
    let (asked, withdrawn, in_turn) = storm(&store, |_| patient(MS)).await;
    assert!(asked <= in_turn, "{asked} requests where {in_turn} fit one after the other");
    assert!(withdrawn <= 1, "{withdrawn} withdrawals of one place");
    store.locks.shutdown().await;
    assert_eq!(store.waiters().await, 0, "C19: the place outlives the storm");
    holder.release().await.expect("held to the end");
}

/// C26: another TTL or label needs a new request for the place.
#[tokio::test(start_paused = true)]
async fn c26_callers_with_other_ttls_and_labels_share_the_place() {
    let store = Store::new();
    let _holder = store.other().acquire("a").await.expect("a free lock");
    let request = |n: usize| {
        let ttl = Duration::from_secs(n as u64 % 7 + 1);
        patient(MS).ttl(ttl).label(format!("caller-{}", n % 5))
    };
    let (asked, withdrawn, in_turn) = storm(&store, request).await;
    assert!(asked <= in_turn, "{asked} requests where {in_turn} fit one after the other");
    assert!(withdrawn <= 1, "{withdrawn} withdrawals of one place");
}

/// C26: a place has one kind, so a head of another kind sends a new request: callers of several kinds cost few
/// requests per head, and have one place at a time.
#[tokio::test(start_paused = true)]
async fn c26_callers_of_several_kinds_ask_one_at_a_time() {
    let store = Store::new();
    let _holder = store.other().acquire("a").await.expect("a free lock");
    let request = |n: usize| match n % 3 {
        0 => patient(MS),
        1 => patient(MS).shared(),
        _ => patient(MS).permits(1, 3),
    };
    let (asked, withdrawn, in_turn) = storm(&store, request).await;
    // The patience of a head is a fifth of a round trip, and up to three claims in a row ask together.
    assert!(asked <= 5 * 4 * in_turn, "{asked} requests of heads that follow each other");
    assert!(withdrawn <= asked, "{withdrawn} withdrawals of {asked} places");
    store.locks.shutdown().await;
    assert_eq!(store.waiters().await, 0, "C19: a place outlives the storm");
}

/// C18: callers that do not wait cost at most one request each, for any kind of hold, and leave nothing to
/// withdraw. Exclusive tries share requests.
#[tokio::test(start_paused = true)]
async fn c18_a_storm_of_tries_costs_a_request_each_at_most() {
    const CALLERS: usize = 200;
    const ROUNDS: usize = 20;
    let store = Store::new();
    let holder = store.other().acquire("a").await.expect("a free lock");
    let caller = async |caller: usize| {
        for round in 0..ROUNDS {
            let ttl = Duration::from_secs((caller + round) as u64 % 7 + 1);
            let request = LockRequest::new("a").ttl(ttl).label(format!("caller-{caller}"));
            let request = if caller.is_multiple_of(2) { request } else { request.shared() };
            let tried = store.locks.try_acquire(request).await.expect("an answer");
            assert!(tried.is_none(), "two holders");
        }
    };
    join_all((0..CALLERS).map(caller)).await;
    let (shared, together) = (CALLERS / 2 * ROUNDS, ROUNDS * 2);
    assert!((shared..=shared + together).contains(&store.asked()), "{}", store.asked());
    assert_eq!(store.waiters().await, 0, "a try waits");
    assert_eq!(store.faulty.calls(Operation::Withdraw), 0, "C19: a refused claim leaves nothing");
    holder.release().await.expect("held to the end");
}

/// C26: callers get in if their wait is longer than the holds before them, even if each caller waits alone for
/// its turn.
#[tokio::test(start_paused = true)]
async fn c26_short_waits_of_many_arrivals_get_in() {
    const ARRIVALS: u32 = 200;
    const RIVALS: usize = 10;
    let store = Store::new();
    let rivals = store.other();
    let goes_on = std::cell::Cell::new(true);
    let rival = async |_| {
        while goes_on.get() {
            let guard = rivals.acquire(LockRequest::new("a")).await.expect("its turn");
            sleep(10 * MS).await;
            guard.release().await.expect("held to the end");
        }
    };
    let arrival = async |n: u32| {
        sleep(100 * MS * n).await;
        let got_in = store.locks.acquire(patient(1500 * MS)).await;
        match got_in {
            Ok(guard) => guard.release().await.is_ok(),
            Err(error) => panic!("{error}"),
        }
    };
    let arrivals = async {
        let got_in = join_all((0..ARRIVALS).map(arrival)).await;
        goes_on.set(false);
        got_in
    };
    let (got_in, _) = tokio::join!(arrivals, join_all((0..RIVALS).map(rival)));
    assert!(got_in.iter().all(|got_in| *got_in));
    assert!(store.asked() <= 2 * ARRIVALS as usize, "{} requests", store.asked());
}

/// The machine's clock, whose time of day goes on with Tokio's time.
#[derive(Debug)]
struct Virtual(Instant);

#[async_trait::async_trait]
impl Clock for Virtual {
    fn now(&self) -> Moment {
        SystemClock.now()
    }

    fn wall(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1 << 30) + self.0.elapsed()
    }

    async fn sleep_until(&self, deadline: Moment) {
        SystemClock.sleep_until(deadline).await;
    }
}

/// L5: callers that come while ten rivals hold the lock for long get in at the next turn of their client, all that
/// wait by then.
#[tokio::test(start_paused = true)]
async fn l5_a_turn_serves_those_who_waited_when_it_began() {
    const ARRIVALS: u32 = 200;
    let store = MemoryBackend::with_clock(Arc::new(Virtual(Instant::now())));
    let (locks, rivals) =
        (LockClient::new(store.clone()), [(); 10].map(|()| LockClient::new(store.clone())));
    let goes_on = std::cell::Cell::new(true);
    let longest = std::cell::Cell::new(Duration::ZERO);
    let rival = async |client: LockClient| {
        while goes_on.get() {
            let asked = Instant::now();
            let guard = client.acquire("a").await.expect("its turn");
            longest.set(longest.get().max(asked.elapsed()));
            sleep(100 * MS).await;
            guard.release().await.expect("held to the end");
        }
    };
    let arrival = async |n: u32| {
        sleep(100 * MS * n).await;
        let Ok(guard) = locks.acquire(patient(1500 * MS)).await else { return false };
        sleep(10 * MS).await;
        guard.release().await.is_ok()
    };
    let arrivals = async {
        let got_in = join_all((0..ARRIVALS).map(arrival)).await;
        goes_on.set(false);
        got_in.into_iter().filter(|got_in| *got_in).count()
    };
    let (got_in, _) = tokio::join!(arrivals, join_all(rivals.map(rival)));
    assert!(got_in >= 150, "{got_in} of {ARRIVALS} got in");
    assert!(longest.get() <= 1300 * MS, "a rival waited for {:?}", longest.get());
}

/// C27: if a head gives up, the caller behind it gets its place.
#[tokio::test(start_paused = true)]
async fn c27_a_head_that_gives_up_leaves_its_place_to_the_next() {
    let store = Store::new();
    let (holder, rival) = (store.other(), store.other());
    let held = holder.acquire("a").await.expect("a free lock");
    let mut rivals = pin!(rival.acquire("a"));
    let first = async { store.locks.acquire(patient(20 * MS)).await.expect_err("it gives up") };
    let second = store.locks.acquire(patient(TTL));
    let others = async {
        sleep(10 * MS).await;
        assert!((&mut rivals).now_or_never().is_none(), "it waits behind the first");
        sleep(20 * MS).await;
        held.release().await.expect("held to the end");
    };
    let (_, second, ()) = tokio::join!(first, second, others);
    let second = second.expect("its turn");
    assert!((&mut rivals).now_or_never().is_none(), "the rival overtook the line");
    second.release().await.expect("held to the end");
    rivals.await.expect("its turn").release().await.expect("held to the end");
}

/// C16: a grant for a head that gave up goes to the next head, with that head's own TTL.
#[tokio::test(start_paused = true)]
async fn c16_a_grant_on_its_way_is_for_the_next_head() {
    let store = Store::new();
    let first = store.locks.acquire(patient(2 * MS));
    let second = store.locks.acquire(patient(20 * MS).ttl(6 * TTL));
    let (first, second) = tokio::join!(first, second);
    first.expect_err("it gives up before the answer");
    let second = second.expect("granted");
    assert_eq!(store.asked(), 1);
    assert!(second.remaining() <= TTL, "the server keeps it for no longer");
    sleep(TTL / 2).await;
    assert!(second.remaining() > 5 * TTL, "renewed with its own TTL: {second:?}");
    assert_eq!(store.faulty.calls(Operation::Withdraw), 0);
    second.release().await.expect("held to the end");
}

/// C22: a reader does not take a place whose hold may have been granted before the reader came.
#[tokio::test(start_paused = true)]
async fn c22_a_reader_takes_no_hold_from_before_its_call() {
    let store = Store::new();
    let other = store.other();
    let writer = other.acquire("a").await.expect("a free lock");
    let mut first = Box::pin(store.locks.acquire(patient(TTL).shared()));
    timeout(10 * MS, &mut first).await.expect_err("a writer holds it");
    writer.release().await.expect("held to the end");
    // The first reader has its hold now, and nobody polls it.
    let before = other.acquire(patient(TTL).shared()).await.expect("a reader beside it");
    let later = store.locks.acquire(patient(TTL).shared());
    let gives_up = async {
        yield_now().await;
        drop(first);
    };
    let (later, ()) = tokio::join!(later, gives_up);
    let later = later.expect("a reader beside them");
    assert!(later.token() > before.token(), "{later:?} {before:?}");
}

/// C27: a reader keeps the place of its line if that surely waits since the reader came.
#[tokio::test(start_paused = true)]
async fn c27_a_reader_that_gives_up_leaves_its_place_to_the_next() {
    let store = Store::new();
    let writer = store.other().acquire("a").await.expect("a free lock");
    let first =
        store.locks.acquire(patient(4 * FALLBACK_POLL).ttl(Duration::from_secs(9)).shared());
    let second =
        store.locks.acquire(patient(9 * FALLBACK_POLL).ttl(Duration::from_secs(9)).shared());
    let ends = async {
        sleep(5 * FALLBACK_POLL).await;
        writer.release().await.expect("held to the end");
    };
    let (first, second, ()) = tokio::join!(first, second, ends);
    first.expect_err("it gives up");
    let second = second.expect("its turn");
    assert_eq!(store.faulty.calls(Operation::Withdraw), 0);
    second.release().await.expect("held to the end");
}

/// C33: a place has one kind.
#[tokio::test(start_paused = true)]
async fn c33_a_head_of_another_kind_has_a_place_of_its_own() {
    let store = Store::new();
    let other = store.other();
    let reader = other.acquire(patient(TTL).shared()).await.expect("a free lock");
    let writer = store.locks.acquire(patient(20 * MS));
    let next = store.locks.acquire(patient(TTL).shared());
    let (writer, next) = tokio::join!(writer, next);
    writer.expect_err("a reader holds it");
    next.expect("beside the other reader").release().await.expect("held to the end");
    reader.release().await.expect("held to the end");
}

/// C17: a request ends with the runtime that sent it, and the next head asks again.
#[test]
fn c17_a_runtime_that_ends_leaves_the_line_to_others() {
    let runtime = || Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (ends, stays) = (runtime(), runtime());
    let store = Store::new();
    let polled = |future: std::pin::Pin<&mut dyn Future<Output = _>>| {
        assert!(future.now_or_never().is_none(), "it waits");
    };
    let mut first = Box::pin(store.locks.acquire(patient(TTL)));
    let mut second = Box::pin(store.locks.acquire(patient(TTL)));
    ends.block_on(async { polled(first.as_mut()) });
    stays.block_on(async { polled(second.as_mut()) });
    drop(ends);
    drop(first);
    stays.block_on(async { polled(second.as_mut()) });
    assert_eq!(store.asked(), 2, "it asks anew at once");
    let granted = stays.block_on(async { timeout(TTL, second).await.expect("in time") });
    drop(granted.expect("a free lock"));
}

/// C19: a crowd of holds that was dropped at a silent server delays no hold that was dropped at another.
#[tokio::test(start_paused = true)]
async fn c19_a_silent_server_delays_the_cleanups_of_no_other() {
    let store = Faulty::new(Arc::new(MemoryBackend::new()));
    let client = LockClient::new(store.clone());
    let names: Vec<LockName> =
        (0..2_000).map(|i| LockName::new(format!("silent-{i}")).expect("a name")).collect();
    names.iter().for_each(|name| store.move_to(name, 1));
    let guards = join_all(names.iter().map(|name| client.acquire(name))).await;
    let other = client.acquire("other").await.expect("a free lock");
    names.iter().for_each(|name| store.jam(name));
    drop(guards);
    sleep(MS).await;
    drop(other);
    let observer = LockClient::new(store);
    let free = timeout(100 * MS, observer.acquire("other")).await;
    let _free = free.expect("in time").expect("a free lock");
}
