//! C19 to C21: what is dropped at any point leaves nothing behind.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{FutureExt, join_all};
use tokio::time::{sleep, timeout};

use super::{
    Fault, Faulty, Harness, LIMIT, Operation, claim, client, eventually, faulty_client, fresh_name,
    patient, until_free,
};
use lock_core::backend::{Attempt, Claim};
use lock_core::{DistributedLock, Lease, LockRequest, LostReason, Wait};

/// C19: an acquire that is dropped at any await leaves no hold: long before its TTL of a minute the
/// lock is free again.
pub async fn c19_a_dropped_acquire_leaves_nothing(harness: &dyn Harness) {
    let (client, faulty) = faulty_client(harness).await;
    let name = fresh_name();
    let request = || patient(&name, Duration::from_secs(60));
    for polls in 0..40 {
        let mut acquiring = pin!(client.acquire(request()));
        for _ in 0..polls {
            if (&mut acquiring).now_or_never().is_some() {
                break;
            }
            tokio::task::yield_now().await;
        }
    }
    until_free(&client, &name).await;
    for micros in (0..2000).step_by(50) {
        let _ = timeout(Duration::from_micros(micros), client.acquire(request())).await;
    }
    until_free(&client, &name).await;
    faulty.once(Operation::TryAcquire, Fault::SilenceAfter);
    let granted = timeout(Duration::from_millis(300), client.acquire(request())).await;
    assert!(granted.is_err(), "the reply was to be lost");
    until_free(&client, &name).await;
    client.shutdown().await;
}

/// C19: a waiter that is dropped leaves the queue, and the next one gets in.
pub async fn c19_a_dropped_waiter_leaves_the_queue(harness: &dyn Harness) {
    let (holder, leaver) = (client(harness).await, client(harness).await);
    let (next, faulty) = faulty_client(harness).await;
    let (name, ttl) = (fresh_name(), Duration::from_secs(60));
    let guard = holder.acquire(patient(&name, ttl)).await.expect("a free lock");
    for millis in [0, 1, 5, 50, 200] {
        let leaving = leaver.acquire(patient(&name, ttl));
        assert!(timeout(Duration::from_millis(millis), leaving).await.is_err(), "two holders");
    }
    let waiting = tokio::spawn(async move { next.acquire(patient(&name, ttl)).await });
    eventually("it waits", async || faulty.calls(Operation::TryAcquire) > 0).await;
    let name = guard.name();
    guard.release().await.expect("an answer");
    let guard = timeout(LIMIT, waiting).await.expect("its turn comes").expect("no panic");
    guard.expect("granted").release().await.expect("an answer");
    until_free(&holder, &name).await;
}

/// C19: a request of a withdrawn claim that comes late is refused, so that it cannot take a lock
/// that nobody wants any more.
pub async fn c19_a_late_request_of_a_withdrawn_claim_is_refused(harness: &dyn Harness) {
    let (backend, name) = (harness.connect().await, fresh_name());
    let ghost = claim(&name, Duration::from_secs(60));
    backend.withdraw(&name, ghost.owner).await.expect("an answer");
    let late = backend.try_acquire(&ghost, None).await;
    assert!(!matches!(late, Ok(Attempt::Granted(_))), "a ghost took the lock");
    let claim = claim(&name, Duration::from_secs(60));
    let next = backend.try_acquire(&claim, None).await.expect("an answer");
    assert!(matches!(next, Attempt::Granted(_)), "{next:?}");
    backend.withdraw(&name, claim.owner).await.expect("an answer");
    let state = backend.inspect(&name).await.expect("an answer");
    assert_eq!(state.holder, None);
}

/// C19: a place in a queue outlives the shortest TTLs, and a withdrawal is tried for as long.
pub async fn c19_a_withdrawal_outlasts_a_short_ttl(harness: &dyn Harness) {
    let (holder, name) = (client(harness).await, fresh_name());
    let (leaver, faulty) = faulty_client(harness).await;
    let guard = holder.acquire(patient(&name, LIMIT)).await.expect("a free lock");
    faulty.always(Operation::Withdraw, Fault::RequestLost);
    let hasty = patient(&name, harness.ttl()).wait(Wait::AtMost(Duration::from_millis(50)));
    let late = leaver.acquire(hasty).await;
    assert!(late.is_err(), "{late:?}");
    sleep(harness.ttl() + Duration::from_millis(200)).await;
    faulty.heal();
    let before = faulty.calls(Operation::Withdraw);
    eventually("it is withdrawn", async || faulty.calls(Operation::Withdraw) > before).await;
    guard.release().await.expect("an answer");
}

/// C19: a request that had no answer, and comes after its hold was released, takes nothing.
pub async fn c19_a_request_that_outlived_its_hold_takes_nothing(harness: &dyn Harness) {
    let (client, faulty) = faulty_client(harness).await;
    let ttl = Duration::from_secs(60);
    for drops in [false, true] {
        let name = fresh_name();
        faulty.once(Operation::TryAcquire, Fault::RequestLost);
        let guard = client.acquire(patient(&name, ttl)).await.expect("the second try");
        let ghost = faulty.last_claim().expect("it was tried");
        if drops {
            drop(guard);
        } else {
            guard.release().await.expect("an answer");
        }
        // Once the janitor has been there, the request may come.
        until_free(&client, &name).await;
        until_refused(&faulty, &ghost).await;
        until_free(&client, &name).await;
    }
}

/// Waits until the late request of a claim takes nothing: it is refused, or taken back.
async fn until_refused(faulty: &Faulty, ghost: &Claim) {
    eventually("the late request takes nothing", async || {
        let late = faulty.try_acquire(ghost, None).await;
        !matches!(late, Ok(Attempt::Granted(_)))
    })
    .await;
}

/// C19: a lease that is handed on says that a request of it may come late: its last release refuses
/// that request, in this process and in another.
pub async fn c19_a_lease_that_is_handed_on_stays_unresolved(harness: &dyn Harness) {
    let (client, faulty) = faulty_client(harness).await;
    for exports in [false, true] {
        let name = fresh_name();
        faulty.once(Operation::TryAcquire, Fault::RequestLost);
        let request = patient(&name, Duration::from_secs(60));
        let guard = client.acquire(request).await.expect("the second try");
        let ghost = faulty.last_claim().expect("it was tried");
        let lease = guard.detach().expect("held");
        let lease = match exports {
            true => Lease::import(&lease.export()).expect("its own text"),
            false => lease,
        };
        client.attach(lease).await.expect("held").release().await.expect("an answer");
        until_refused(&faulty, &ghost).await;
        until_free(&client, &name).await;
    }
}

/// C19: tries that were given up at locks that are jammed cost no other lock: the guard of another is
/// given back long before its TTL.
pub async fn c19_a_jammed_lock_costs_no_other(harness: &dyn Harness) {
    let (client, faulty) = faulty_client(harness).await;
    let (other, ttl) = (fresh_name(), Duration::from_secs(60));
    let guard = client.acquire(patient(&other, ttl)).await.expect("a free lock");
    let jammed: Vec<_> = (0..100).map(|_| fresh_name()).collect();
    jammed.iter().for_each(|name| faulty.jam(name));
    // Each of them once, and one of them many times.
    let tries = jammed.iter().chain(std::iter::repeat_n(&jammed[0], 100));
    let given_up = tries.map(|name| client.try_acquire(patient(name, ttl)));
    let given_up = given_up.map(|acquiring| timeout(Duration::from_millis(20), acquiring));
    assert!(join_all(given_up).await.iter().all(Result::is_err), "it was to be jammed");
    drop(guard);
    let freed = timeout(Duration::from_secs(5), until_free(&client, &other)).await;
    assert!(freed.is_ok(), "a lock waited for another that is jammed");
    faulty.heal();
    for name in &jammed {
        until_free(&client, name).await;
    }
}

/// C20: a guard is given back from any thread, outside a runtime, and during unwinding.
pub async fn c20_a_guard_may_be_dropped_anywhere(harness: &dyn Harness) {
    let (client, name, ttl) = (client(harness).await, fresh_name(), Duration::from_secs(60));
    let guard = client.acquire(patient(&name, ttl)).await.expect("a free lock");
    drop(guard);
    let guard = client.acquire(patient(&name, ttl)).await.expect("given back by a task");
    std::thread::spawn(move || drop(guard)).join().expect("no panic outside a runtime");
    let guard = client.acquire(patient(&name, ttl)).await.expect("given back by a thread");
    let unwound = tokio::spawn(async move {
        let _guard = guard;
        std::panic::resume_unwind(Box::new("a panic of the test"));
    });
    assert!(unwound.await.is_err());
    let guard = client.acquire(patient(&name, ttl)).await.expect("given back by an unwinding");
    let signal = guard.lost_signal();
    drop(guard);
    assert_eq!(signal.wait().await, LostReason::Released);
    until_free(&client, &name).await;
}

/// C21: after many calls were dropped in mid-flight, each further reply is its own request's.
pub async fn c21_no_reply_goes_to_the_wrong_caller(harness: &dyn Harness) {
    let (client, tag) = (client(harness).await, fresh_name());
    let name = |i: usize| format!("{tag}-{i}");
    let dropped = (0..300).map(|i| {
        let (client, name) = (client.clone(), name(i % 10));
        async move {
            let limit = Duration::from_micros((i as u64 * 7) % 400);
            let _ = timeout(limit, client.try_acquire(&*name)).await;
            let state = client.inspect(&name).await.expect("an answer");
            assert_eq!(state.name.as_str(), name);
        }
    });
    join_all(dropped).await;
    eventually("everything dropped is given back", async || {
        client.list(tag.as_str(), 100).await.expect("an answer").is_empty()
    })
    .await;
    for i in 0..10 {
        let label = format!("label {i}");
        let request = LockRequest::new(name(i)).label(&label).wait(Wait::Never);
        let guard = client.acquire(request).await.expect("it is free");
        let holder = client.inspect(name(i)).await.expect("an answer").holder.expect("held");
        assert_eq!((holder.token, holder.label.as_str()), (Some(guard.token()), &*label));
        guard.release().await.expect("an answer");
    }
}
