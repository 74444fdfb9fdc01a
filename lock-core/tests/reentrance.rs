//! C43: requests that share one hold, and the warning about those that do not.

#![allow(clippy::expect_used, clippy::panic)]

use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use lock_core::backend::async_trait;
use lock_core::{
    ClientOptions, Clock, LockClient, LockError, LockGuard, LockRequest, LostReason, MemoryBackend,
    Moment, Reentrance, SystemClock, Wait,
};
use lock_testkit::{Fault, Faulty, Operation};
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// Returns a client whose requests take 10 ms, and a client of the same store whose requests take no time.
fn clients() -> (LockClient, Faulty, LockClient) {
    let memory = MemoryBackend::new();
    let faulty = Faulty::new(Arc::new(memory.clone()));
    faulty.always(Operation::Acquire, Fault::Late(10 * MS));
    (LockClient::new(faulty.clone()), faulty, LockClient::new(memory))
}

fn request(me: &Reentrance) -> LockRequest {
    LockRequest::new("a").ttl(3 * SECOND).reentrant(me)
}

async fn is_free(observer: &LockClient, after: &str) {
    sleep(SECOND).await;
    let state = observer.admin().inspect("a").await.expect("an answer");
    assert_eq!((state.holder().cloned(), state.waiters), (None, Some(0)), "{after}");
}

async fn is_held(observer: &LockClient) -> bool {
    observer.admin().inspect("a").await.expect("an answer").holder().is_some()
}

/// C43: a repeated request costs nothing, and the last guard releases the lock, however each guard ends.
#[tokio::test(start_paused = true)]
async fn c43_the_last_guard_gives_the_lock_back() {
    for first_to_go in [0, 1, 2] {
        let (locks, faulty, other) = clients();
        let me = Reentrance::new();
        let mut guards = Vec::new();
        for _ in 0..3 {
            guards.push(locks.acquire(request(&me)).await.expect("its own lock"));
        }
        assert_eq!(faulty.calls(Operation::Acquire), 1);
        assert!(guards.iter().all(|guard| guard.token() == guards[0].token()));
        guards.remove(first_to_go).release().await.expect("it is held");
        drop(guards.remove(0));
        sleep(10 * SECOND).await;
        assert!(guards[0].is_held() && is_held(&other).await, "the last guard holds on");
        guards.remove(0).release().await.expect("it is held to the end");
        assert!(!is_held(&other).await, "the last guard gives it back");
    }
}

#[tokio::test(start_paused = true)]
async fn c43_others_do_not_share() {
    let (locks, _, other) = clients();
    let (me, you) = (Reentrance::new(), Reentrance::new());
    let _mine = locks.acquire(request(&me)).await.expect("a free lock");
    assert!(locks.try_acquire(request(&you)).await.expect("an answer").is_none());
    assert!(locks.try_acquire("a").await.expect("an answer").is_none());
    assert!(other.try_acquire(request(&me)).await.expect("an answer").is_none(), "a client's own");
    let clone = me.clone();
    assert!(locks.try_acquire(request(&clone)).await.expect("an answer").is_some());
}

/// C43: simultaneous requests share one hold, even if any of them is cancelled at any time.
#[tokio::test(start_paused = true)]
async fn c43_who_asks_at_once_depends_on_nobody() {
    for (cancelled, holds_for) in (0..45).flat_map(|at| [(at, 0), (at, 17)]) {
        let (locks, _, other) = clients();
        let (me, holder) = (Reentrance::new(), other.acquire("a").await.expect("a free lock"));
        let first = timeout(cancelled * MS, locks.acquire(request(&me)));
        let rest = join_all((0..3).map(|_| locks.acquire(request(&me))));
        let releases = async {
            sleep(holds_for * MS).await;
            drop(holder);
        };
        let (first, rest, ()) = tokio::join!(first, rest, releases);
        let mut guards: Vec<LockGuard> =
            rest.into_iter().collect::<Result<_, _>>().expect("their turn comes");
        guards.extend(first.ok().map(|first| first.expect("its turn comes")));
        assert!(guards.iter().all(|guard| guard.token() == guards[0].token()), "{guards:?}");
        sleep(10 * SECOND).await;
        assert!(guards.iter().all(LockGuard::is_held), "cancelled after {cancelled} ms");
        drop(guards);
        is_free(&other, &format!("cancelled after {cancelled} ms")).await;
    }
}

/// C19, C43: all simultaneous requests are cancelled, in each order.
#[tokio::test(start_paused = true)]
async fn c43_what_is_cancelled_anywhere_leaves_no_lock() {
    for cancelled in 0..30 {
        let (locks, _, other) = clients();
        let me = Reentrance::new();
        let asking = join_all((0..3).map(|_| locks.acquire(request(&me))));
        drop(timeout(cancelled * MS, asking).await);
        is_free(&other, &format!("cancelled after {cancelled} ms")).await;
    }
}

/// C10, C43: a loss affects all guards, and the next request acquires the lock again.
#[tokio::test(start_paused = true)]
async fn c43_a_loss_is_that_of_all_guards() {
    let (locks, _, other) = clients();
    let me = Reentrance::new();
    let one = locks.acquire(request(&me)).await.expect("a free lock");
    let two = locks.acquire(request(&me)).await.expect("its own lock");
    let signals = [one.lost_signal(), two.lost_signal()];
    other.admin().evict("a").await.expect("an answer");
    for signal in &signals {
        assert_eq!(signal.wait().await, LostReason::Evicted);
    }
    let anew = locks.acquire(request(&me)).await.expect("a free lock");
    assert!(anew.token() > one.token());
    let again = locks.acquire(request(&me)).await.expect("its own lock");
    assert_eq!(again.token(), anew.token());
    assert!(matches!(one.release().await, Err(LockError::Lost { .. })));
    drop(two);
    sleep(10 * SECOND).await;
    assert!(anew.is_held() && again.is_held(), "the guards of the old hold end nothing");
    drop((anew, again));
    is_free(&other, "at the end").await;
}

/// C43: the hold has the longest TTL of the requests, even after the guard with that TTL ended.
#[tokio::test(start_paused = true)]
async fn c43_the_longest_ttl_counts() {
    let (locks, _, _) = clients();
    let me = Reentrance::new();
    let outer = locks.acquire(request(&me)).await.expect("a free lock");
    for (ttl, expected) in [(SECOND, 3), (60 * SECOND, 60), (10 * SECOND, 60)] {
        let inner = locks.acquire(request(&me).ttl(ttl)).await.expect("its own lock");
        sleep(200 * MS).await;
        let left = inner.remaining().as_secs_f64();
        assert!(left > f64::from(expected) * 0.6 && left <= f64::from(expected), "{left}");
    }
    sleep(300 * SECOND).await;
    let left = outer.remaining();
    assert!(outer.is_held() && left > 35 * SECOND, "{left:?}");
}

/// C43: other guards keep their hold: the lease stays, and so does the server's hold.
#[tokio::test(start_paused = true)]
async fn c43_a_hold_that_is_shared_is_neither_detached_nor_ended() {
    let (locks, _, other) = clients();
    let me = Reentrance::new();
    let mut guards = Vec::new();
    for _ in 0..3 {
        guards.push(locks.acquire(request(&me)).await.expect("its own lock"));
    }
    let refused = guards.remove(0).detach().expect_err("others hold it");
    assert!(matches!(refused, LockError::AlreadyAttached { .. }), "{refused:?}");
    let refused = guards.remove(0).release_confirmed().await.expect_err("another holds it");
    assert!(matches!(refused, LockError::AlreadyAttached { .. }), "{refused:?}");
    sleep(10 * SECOND).await;
    let lease = guards.remove(0).detach().expect("the last may");
    assert!(is_held(&other).await);
    // The lease is not part of a shared hold any more.
    assert!(locks.try_acquire(request(&me)).await.expect("an answer").is_none());
    locks.attach(lease).await.expect("it is held").release().await.expect("it was held");
    is_free(&other, "after the release").await;
}

/// C20, C43: a shutdown ends a hold that is shared, once.
#[tokio::test(start_paused = true)]
async fn c43_a_shutdown_ends_a_shared_hold() {
    let (locks, _, other) = clients();
    let me = Reentrance::new();
    let one = locks.acquire(request(&me)).await.expect("a free lock");
    let two = locks.acquire(request(&me)).await.expect("its own lock");
    locks.shutdown().await;
    assert!(!one.is_held() && !two.is_held() && !is_held(&other).await);
    let closed = locks.acquire(request(&me)).await;
    assert!(matches!(closed, Err(LockError::Closed { .. })), "{closed:?}");
}

/// C18: a request that does not wait is answered from known facts, even if another one waits.
#[tokio::test(start_paused = true)]
async fn c43_a_request_keeps_its_own_wait() {
    let (locks, _, other) = clients();
    let (me, _holder) = (Reentrance::new(), other.acquire("a").await.expect("a free lock"));
    let patient = locks.acquire(request(&me));
    let hasty = async {
        sleep(SECOND).await;
        timeout(100 * MS, locks.acquire(request(&me).wait(Wait::Never))).await.expect("in time")
    };
    tokio::select! {
        acquired = patient => panic!("the lock is held: {acquired:?}"),
        refused = hasty => assert!(matches!(refused, Err(LockError::NotAcquired { .. }))),
    }
}

/// C33, C43: a reader does not get an exclusive hold by asking again, and an exclusive holder may read.
#[tokio::test(start_paused = true)]
async fn c43_a_hold_of_one_kind_is_none_of_another() {
    let (locks, _, other) = clients();
    let me = Reentrance::new();
    let reader = locks.acquire(request(&me).shared()).await.expect("a free lock");
    let alone = locks.try_acquire(request(&me)).await.expect("an answer");
    assert!(alone.is_none(), "other readers may be beside a shared hold");
    let again = locks.acquire(request(&me).shared()).await.expect("its own hold");
    assert_eq!(again.token(), reader.token());
    drop((reader, again));
    is_free(&other, "after the readers").await;
    let writer = locks.acquire(request(&me)).await.expect("a free lock");
    let reads = locks.acquire(request(&me).shared()).await.expect("its own hold");
    assert_eq!(reads.token(), writer.token());
    drop(writer);
    assert!(other.try_acquire(LockRequest::new("a").shared()).await.expect("an answer").is_none());
    drop(reads);
    is_free(&other, "after the writer").await;
}

/// C43: simultaneous requests share one hold, even if the store would grant each its own.
#[tokio::test(start_paused = true)]
async fn c43_those_that_could_hold_beside_each_other_share_a_hold() {
    for kind in [LockRequest::shared, |request: LockRequest| request.permits(1, 8)] {
        let (locks, _, other) = clients();
        let me = Reentrance::new();
        let asking = (0..5).map(|_| locks.acquire(kind(request(&me).wait(Wait::Never))));
        let acquired = join_all(asking).await;
        let guards: Vec<LockGuard> =
            acquired.into_iter().collect::<Result<_, _>>().expect("there is room for all");
        assert!(guards.iter().all(|guard| guard.token() == guards[0].token()), "{guards:?}");
        sleep(SECOND).await;
        let holders = other.admin().inspect("a").await.expect("an answer").holders.len();
        assert_eq!(holders, 1, "what was granted beside it is given back");
        drop(guards);
        is_free(&other, "at the end").await;
    }
}

/// C43: a hold of permits serves a request for as many or fewer, which would otherwise be refused by its own hold.
#[tokio::test(start_paused = true)]
async fn c43_permits_serve_a_request_for_fewer() {
    let (locks, _, _) = clients();
    let me = Reentrance::new();
    let all = locks.acquire(request(&me).permits(3, 3)).await.expect("free permits");
    for taken in [3, 2, 1] {
        let fewer = locks.try_acquire(request(&me).permits(taken, 3)).await.expect("an answer");
        assert_eq!(fewer.expect("its own permits").token(), all.token());
    }
    let other = request(&Reentrance::new()).permits(1, 3);
    assert!(locks.try_acquire(other).await.expect("an answer").is_none(), "not its own");
    all.release().await.expect("it is held to the end");
    let one = locks.acquire(request(&me).permits(1, 3)).await.expect("a free permit");
    let two = locks.try_acquire(request(&me).permits(2, 3)).await.expect("an answer");
    assert_ne!(two.expect("free permits").token(), one.token(), "one serves no two");
}

/// C43: a hold of one `Reentrance` wakes no waiter of another.
#[tokio::test(start_paused = true)]
async fn c43_waiters_are_woken_by_holds_of_their_own() {
    let (_, _, locks) = clients();
    let _held = locks.acquire("a").await.expect("a free lock");
    let me = Reentrance::new();
    let polls = Arc::new(AtomicUsize::new(0));
    let mut waiting = Box::pin(locks.acquire(request(&me)));
    let counted = polls.clone();
    let waiter = tokio::spawn({
        let locks = locks.clone();
        async move {
            let mut waiting = Box::pin(locks.acquire(request(&Reentrance::new())));
            poll_fn(|context| {
                counted.fetch_add(1, Ordering::Relaxed);
                waiting.as_mut().poll(context).map(drop)
            })
            .await;
        }
    });
    assert!(timeout(MS, &mut waiting).await.is_err(), "it is held");
    let before = polls.load(Ordering::Relaxed);
    for _ in 0..100 {
        let other = locks.acquire(LockRequest::new("other").reentrant(&me)).await;
        other.expect("a free lock").release().await.expect("it is held");
        yield_now().await;
    }
    let woken = polls.load(Ordering::Relaxed) - before;
    assert!(woken <= 5, "it was woken {woken} times");
    waiter.abort();
}

/// A clock that drops a guard at a reading.
#[derive(Debug, Default)]
struct DropsAGuard(Mutex<Option<LockGuard>>);

#[async_trait]
impl Clock for DropsAGuard {
    fn now(&self) -> Moment {
        let guard = self.0.lock().expect("no panic").take();
        drop(guard);
        SystemClock.now()
    }
    async fn sleep_until(&self, deadline: Moment) {
        SystemClock.sleep_until(deadline).await;
    }
}

/// C43, R1: a request that looks at a second hold of its `Reentrance`, while the last guard of that hold is dropped, does
/// not make it last for ever.
#[tokio::test(start_paused = true)]
async fn c43_a_hold_that_is_looked_at_while_its_guard_goes_is_given_back() {
    let (memory, clock) = (MemoryBackend::new(), Arc::new(DropsAGuard::default()));
    let options = ClientOptions::new().clock(clock.clone());
    let locks = LockClient::with_options(memory.clone(), options);
    let me = Reentrance::new();
    let request = |taken| LockRequest::new("a").permits(taken, 5).reentrant(&me);
    let outer = locks.acquire(request(1)).await.expect("a free permit");
    let second = locks.acquire(request(2)).await.expect("two free permits");
    *clock.0.lock().expect("no panic") = Some(second);
    let inner = locks.acquire(request(1)).await.expect("its own permit");
    assert_eq!(inner.token(), outer.token());
    drop((outer, inner));
    is_free(&LockClient::new(memory), "a look").await;
}
