//! C39: several locks at once, with cancellation and failure at every point.

#![allow(clippy::expect_used, clippy::panic)]

mod line;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use lock_core::{
    InputKind, LockClient, LockError, LockRequest, LostReason, MemoryBackend, MultiRequest, Wait,
};
use lock_testkit::{Fault, Faulty, Operation};
use tokio::time::{Instant, sleep, timeout};

/// Returns the kind of input that was refused.
fn invalid(error: &LockError) -> Option<InputKind> {
    match error {
        LockError::Invalid(input) => Some(input.kind()),
        _ => None,
    }
}

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const NAMES: [&str; 3] = ["c", "a", "b"];

/// Returns a client whose requests take 10 ms, and a client of the same store whose requests take no time.
fn clients() -> (LockClient, Faulty, LockClient) {
    let memory = MemoryBackend::new();
    let faulty = Faulty::new(Arc::new(memory.clone()));
    faulty.always(Operation::Acquire, Fault::Late(10 * MS));
    (LockClient::new(faulty.clone()), faulty, LockClient::new(memory))
}

/// Lets the request for the lock at this position meet `fault`, if a request for all finds all free.
fn fail_at(position: usize, faulty: &Faulty, fault: Fault) {
    (0..position).for_each(|_| faulty.once(Operation::Acquire, Fault::Late(10 * MS)));
    faulty.once(Operation::Acquire, fault);
}

async fn holds_nothing(observer: &LockClient, after: &str) {
    sleep(SECOND).await;
    for name in NAMES {
        let state = observer.admin().inspect(name).await.expect("an answer");
        assert_eq!((state.holder().cloned(), state.waiters), (None, Some(0)), "{name} {after}");
    }
}

/// C19, C39: cancellation at each millisecond, with all locks free, and with each one held by another.
#[tokio::test(start_paused = true)]
async fn c39_what_is_cancelled_anywhere_leaves_no_lock() {
    for held in [None, Some("a"), Some("b"), Some("c")] {
        for cancelled in 0..60 {
            let (locks, _, other) = clients();
            let guard = match held {
                Some(name) => Some(other.acquire(name).await.expect("a free lock")),
                None => None,
            };
            let acquired = timeout(cancelled * MS, locks.acquire_all(NAMES)).await;
            assert_eq!(acquired.is_ok(), held.is_none() && cancelled >= 20, "{held:?}");
            drop((acquired, guard));
            holds_nothing(&other, &format!("after {cancelled} ms with {held:?} held")).await;
        }
    }
}

/// C39: if any of the requests fails, everything is released, and the error names the lock. A request that does not
/// wait asks for no lock behind that.
#[tokio::test(start_paused = true)]
async fn c39_a_failure_anywhere_leaves_no_lock() {
    for (before, failed) in ["a", "b", "c"].into_iter().enumerate() {
        let (locks, faulty, other) = clients();
        let guard = other.acquire(failed).await.expect("a free lock");
        let request = MultiRequest::new(NAMES).wait(Wait::Never);
        let error = locks.acquire_all(request).await.expect_err("it is held");
        let LockError::NotAcquired { name, .. } = &error else { panic!("{error:?}") };
        assert_eq!(name.as_str(), failed);
        assert_eq!(faulty.calls(Operation::Acquire), before + 1, "{failed}");
        drop(guard);
        holds_nothing(&other, &format!("after {failed} was busy")).await;
    }
}

/// C18, C39: there is one wait for all locks, and the error reports the whole of it.
#[tokio::test(start_paused = true)]
async fn c39_one_wait_bounds_all_locks() {
    let (locks, _, other) = clients();
    let first = other.acquire("a").await.expect("a free lock");
    let _second = other.acquire("b").await.expect("a free lock");
    let started = Instant::now();
    let releases = async {
        sleep(3 * SECOND).await;
        first.release().await.expect("it was held");
    };
    let request = MultiRequest::new(NAMES).wait(Wait::AtMost(5 * SECOND));
    let (acquired, ()) = tokio::join!(locks.acquire_all(request), releases);
    let error = acquired.expect_err("the second is held");
    let LockError::Timeout { name, waited, .. } = error else { panic!("{error:?}") };
    assert_eq!((name.as_str(), waited.as_secs()), ("b", 5));
    assert!(started.elapsed() < 5 * SECOND + 100 * MS, "{:?}", started.elapsed());
}

/// C39: a loss while waiting for the next lock ends the acquisition at once.
#[tokio::test(start_paused = true)]
async fn c39_a_loss_amid_the_acquisition_ends_it() {
    let (locks, _, other) = clients();
    let guard = other.acquire("b").await.expect("a free lock");
    let evicts = async {
        sleep(SECOND).await;
        other.admin().evict("a").await.expect("an answer");
    };
    let request = MultiRequest::new(NAMES).ttl(3 * SECOND).wait(Wait::AtMost(60 * SECOND));
    let (acquired, ()) = tokio::join!(locks.acquire_all(request), evicts);
    let error = acquired.expect_err("it lost the first");
    let LockError::Lost { name, reason, .. } = error else { panic!("{error:?}") };
    assert_eq!((name.as_str(), reason), ("a", LostReason::Evicted));
    drop(guard);
    holds_nothing(&other, "after a loss").await;
}

/// C13, C39: acquired locks are renewed while the acquisition waits for the others; the bound on renewing counts
/// from the time when all are held.
#[tokio::test(start_paused = true)]
async fn c39_what_is_acquired_is_renewed_while_the_rest_is_waited_for() {
    let (locks, _, other) = clients();
    let guard = other.acquire("c").await.expect("a free lock");
    let releases = async {
        sleep(30 * SECOND).await;
        guard.release().await.expect("it was held");
    };
    let request = MultiRequest::new(NAMES).ttl(3 * SECOND).max_hold(10 * SECOND);
    let (acquired, ()) = tokio::join!(locks.acquire_all(request), releases);
    let (all, began) = (acquired.expect("its turn comes"), Instant::now());
    let (_, reason) = all.lost().await;
    assert_eq!(reason, LostReason::MaxHold);
    let held = began.elapsed();
    assert!(held > 9 * SECOND && held < 14 * SECOND, "{held:?}");
}

#[tokio::test(start_paused = true)]
async fn c39_one_to_512_locks_are_acquired_at_once() {
    let (locks, faulty, _) = clients();
    let names = |count: usize| (0..count).map(|i| format!("name-{i}"));
    for count in [0, MultiRequest::MAX_NAMES + 1] {
        let error = locks.acquire_all(names(count)).await.expect_err("too few or too many");
        assert_eq!(invalid(&error), Some(InputKind::NameCount));
        assert!(error.to_string().ends_with(&format!("not {count}")), "{error}");
    }
    let bad = locks.acquire_all(["a", ""]).await.expect_err("no name");
    assert_eq!(invalid(&bad), Some(InputKind::Name));
    let bad = locks.acquire_all(MultiRequest::new(["a"]).ttl(MS)).await.expect_err("no TTL");
    assert_eq!(invalid(&bad), Some(InputKind::Ttl));
    assert_eq!(faulty.calls(Operation::Acquire), 0, "nothing is sent");
    let twice = names(MultiRequest::MAX_NAMES).chain(names(MultiRequest::MAX_NAMES));
    let began = Instant::now();
    let all = locks.acquire_all(twice).await.expect("free locks");
    assert_eq!(all.tokens().count(), MultiRequest::MAX_NAMES, "each is acquired once");
    assert_eq!(faulty.calls(Operation::Acquire), MultiRequest::MAX_NAMES);
    assert_eq!(began.elapsed(), 20 * MS, "all but the first are asked for at once");
}

/// C39: locks behind a busy one that were acquired with the others are given back before the wait for the busy one.
#[tokio::test(start_paused = true)]
async fn c39_what_was_acquired_behind_a_busy_lock_goes_back() {
    let (locks, _, other) = clients();
    let guard = other.acquire("b").await.expect("a free lock");
    let all = tokio::spawn(async move { locks.acquire_all(["a", "b", "c", "d"]).await });
    sleep(15 * MS).await;
    for name in ["c", "d"] {
        let tried = other.try_acquire(name).await.expect("an answer");
        assert!(tried.is_none(), "{name} is asked for at once");
    }
    sleep(15 * MS).await;
    for name in ["c", "d"] {
        let free = other.try_acquire(name).await.expect("an answer");
        free.expect("it is given back").release().await.expect("it was held");
    }
    guard.release().await.expect("it was held");
    let all = all.await.expect("no panic").expect("its turn comes");
    assert_eq!(all.tokens().count(), 4);
    all.release().await.expect("held to the end");
}

/// C39: many busy locks multiply no requests: fewer are asked for at once after a busy one.
#[tokio::test(start_paused = true)]
async fn c39_many_busy_locks_cost_few_requests() {
    let (locks, faulty, other) = clients();
    let names: Vec<_> = (0..100).map(|i| format!("name-{i:03}")).collect();
    let held = other.acquire_all(&names).await.expect("free locks");
    let releases = async {
        for guard in held.into_guards() {
            sleep(50 * MS).await;
            guard.release().await.expect("it was held");
        }
    };
    let (acquired, ()) = tokio::join!(locks.acquire_all(&names), releases);
    acquired.expect("its turn comes").release().await.expect("held to the end");
    let asked = faulty.calls(Operation::Acquire);
    assert!(asked < 5 * names.len(), "{asked} requests for {} locks", names.len());
}

/// C19, C39: if a request for one of several fails or is cancelled at any point, no lock stays held.
#[tokio::test(start_paused = true)]
async fn c39_a_request_for_several_that_failed_leaves_no_lock() {
    let faults = [
        Fault::Refused,
        Fault::RequestLost,
        Fault::ReplyLost,
        Fault::Silence,
        Fault::SilenceAfter,
        Fault::Late(1500 * MS),
    ];
    for (position, fault) in (0..3).flat_map(|position| faults.map(|fault| (position, fault))) {
        for held in [None, Some("b")] {
            for cancelled in [0, 5, 15, 25, 500, 1005, 1015, 1022, 1500, 3000] {
                let (locks, faulty, other) = clients();
                fail_at(position, &faulty, fault);
                let guard = match held {
                    Some(name) => Some(other.acquire(name).await.expect("a free lock")),
                    None => None,
                };
                let acquired = timeout(cancelled * MS, locks.acquire_all(NAMES)).await;
                assert!(acquired.is_ok() || held.is_some() || cancelled < 3000, "{fault:?}");
                assert!(acquired.is_err() || held.is_none() && cancelled > 20, "{fault:?}");
                drop((acquired, guard));
                holds_nothing(&other, &format!("after {fault:?} and {cancelled} ms")).await;
            }
        }
    }
}

/// C5, C39: grants of locks that were asked for at once and arrive after their own deadlines do not count, and are
/// found again.
#[tokio::test(start_paused = true)]
async fn c05_several_grants_that_come_too_late_are_not_returned() {
    let (locks, faulty, other) = clients();
    fail_at(1, &faulty, Fault::Late(400 * MS));
    let began = Instant::now();
    let request = MultiRequest::new(NAMES).ttl(300 * MS);
    let all = locks.acquire_all(request).await.expect("free locks");
    assert!(began.elapsed() >= 400 * MS && all.is_held());
    assert_eq!(faulty.calls(Operation::Acquire), 5, "the one behind it was given back");
    drop(all);
    holds_nothing(&other, "after the release").await;
}

/// C48: an answer "busy" for one of several is told, though the wait ends before the next answer.
#[tokio::test(start_paused = true)]
async fn c48_a_busy_lock_among_several_is_told() {
    for (held, wait) in [("a", 300), ("b", 500)] {
        let (locks, faulty, other) = clients();
        faulty.always(Operation::Acquire, Fault::Late(200 * MS));
        let _guard = other.acquire(LockRequest::new(held).label("web-3")).await.expect("free");
        let request = MultiRequest::new(NAMES).wait(wait * MS);
        let error = locks.acquire_all(request).await.expect_err("it is held");
        let LockError::Timeout { name, contention, .. } = &error else { panic!("{error:?}") };
        let holder = contention.as_ref().and_then(|seen| seen.holder.as_ref());
        assert_eq!((name.as_str(), holder.map(|label| label.as_str())), (held, Some("web-3")));
    }
}

/// C48: a server that fell silent amid several is told as silent, unless its last answer was recent.
#[tokio::test(start_paused = true)]
async fn c48_a_silent_server_amid_several_is_told() {
    for (wait, is_busy) in [(100, true), (5000, false)] {
        let (locks, faulty, _) = clients();
        faulty.heal();
        faulty.once(Operation::Acquire, Fault::Late(60 * MS));
        faulty.always(Operation::Acquire, Fault::Silence);
        let request = MultiRequest::new(NAMES).wait(wait * MS);
        let error = locks.acquire_all(request).await.expect_err("no answer");
        assert_eq!(error.is_busy(), is_busy, "{error:?}");
    }
}

/// C39: `lost`, `run` and `release` name the lock that was lost.
#[tokio::test(start_paused = true)]
async fn c39_the_loss_of_one_is_named() {
    let (locks, _, other) = clients();
    let all = locks.acquire_all(MultiRequest::new(NAMES).ttl(3 * SECOND)).await.expect("free");
    assert!(all.is_held() && all.remaining() > 2 * SECOND);
    other.admin().evict("b").await.expect("an answer");
    let (name, reason) = all.lost().await;
    assert_eq!((name.as_str(), reason), ("b", LostReason::Evicted));
    assert!(!all.is_held() && all.remaining().is_zero());
    let run = all.run(async { panic!("no step is made after a loss") }).await;
    assert!(matches!(run, Err(LockError::Lost { name, .. }) if name.as_str() == "b"));
    let ended = all.release().await;
    assert!(matches!(ended, Err(LockError::Lost { name, .. }) if name.as_str() == "b"));
    holds_nothing(&other, "after the release").await;
}

#[tokio::test(start_paused = true)]
async fn c39_a_listener_is_told_which_lock_is_busy() {
    let (locks, _, other) = clients();
    let _guard = other.acquire(LockRequest::new("b").label("web-3")).await.expect("a free lock");
    let heard = Arc::new(Mutex::new(Vec::new()));
    let told = heard.clone();
    let request = MultiRequest::new(NAMES).wait(Wait::Never).on_wait(move |name, seen| {
        told.lock().expect("no panic").push(format!("{name}: {:?}", seen.holder));
    });
    locks.acquire_all(request).await.expect_err("one is held");
    let heard = heard.lock().expect("no panic").clone();
    assert_eq!(heard.len(), 1);
    assert!(heard[0].starts_with("b: ") && heard[0].contains("web-3"), "{heard:?}");
}

/// C20: a shutdown ends a wait for the rest as one for a single lock, and is no loss.
#[tokio::test(start_paused = true)]
async fn c39_a_shutdown_ends_a_wait_for_the_rest() {
    let (locks, _, other) = clients();
    let _held = other.acquire("b").await.expect("a free lock");
    let (refused, ()) = tokio::join!(locks.acquire_all(NAMES), async {
        sleep(SECOND).await;
        locks.shutdown().await;
    });
    let refused = refused.expect_err("it is shut down");
    assert!(matches!(refused, LockError::Closed { .. }), "{refused}");
}

/// C39: of requests that overlap and do not wait, one is granted: none is refused for a lock that another one gives up.
#[tokio::test(start_paused = true)]
async fn c39_tries_for_several_are_not_all_refused() {
    let memory = MemoryBackend::new();
    let tries = [vec!["a", "b", "c"], vec!["b", "c"], vec!["a", "c"]].map(|names| {
        let faulty = Faulty::new(Arc::new(memory.clone()));
        faulty.always(Operation::Acquire, Fault::Late(10 * MS));
        let request = MultiRequest::new(names).wait(Wait::Never);
        async move { LockClient::new(faulty).acquire_all(request).await }
    });
    let granted = join_all(tries).await.into_iter().filter(Result::is_ok).count();
    assert_eq!(granted, 1);
}
