//! C19 to C21: a future that is dropped at any point leaves nothing behind.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{FutureExt, join_all};
use tokio::time::{sleep, timeout};

use super::harness::Harness;
use super::steps::{answered, client, eventually, faulty_client, fresh_name, patient, until_free};
use crate::{Fault, Faulty, Operation};
use lock_core::backend::{Attempt, Claim};
use lock_core::{DistributedLock, Lease, LockRequest, LostReason, Wait};

/// C19: an acquire that is dropped at any await leaves no hold: the lock is free again long before its TTL of a
/// minute.
pub async fn c19_a_dropped_acquire_leaves_nothing(harness: &dyn Harness) {
    let (client, faulty) = faulty_client(harness).await;
    let name = fresh_name();
    let request = || patient(&name, harness.long_ttl());
    for polls in 0..40 {
        let mut acquiring = pin!(client.acquire(request()));
        for _ in 0..polls {
            if (&mut acquiring).now_or_never().is_some() {
                break;
            }
            tokio::task::yield_now().await;
        }
    }
    until_free(harness, &client, &name).await;
    for micros in (0..2000).step_by(50) {
        let _ = timeout(Duration::from_micros(micros), client.acquire(request())).await;
    }
    until_free(harness, &client, &name).await;
    faulty.once(Operation::Acquire, Fault::SilenceAfter);
    let granted = timeout(Duration::from_millis(300), client.acquire(request())).await;
    assert!(granted.is_err(), "a grant whose reply was lost is to be told to nobody");
    until_free(harness, &client, &name).await;
    client.shutdown().await;
}

/// C19: a waiter that is dropped leaves the queue, and the next one gets in.
pub async fn c19_a_dropped_waiter_leaves_the_queue(harness: &dyn Harness) {
    let (holder, leaver) = (client(harness).await, client(harness).await);
    let (next, faulty) = faulty_client(harness).await;
    let (name, ttl) = (fresh_name(), harness.long_ttl());
    let guard = holder.acquire(patient(&name, ttl)).await.expect("a free lock");
    for millis in [0, 1, 5, 50, 200] {
        let leaving = leaver.acquire(patient(&name, ttl));
        let left = timeout(Duration::from_millis(millis), leaving).await;
        assert!(left.is_err(), "a lock that is held is to be granted to nobody else");
    }
    let waiting = tokio::spawn(async move { next.acquire(patient(&name, ttl)).await });
    eventually(harness, "it waits", async || faulty.calls(Operation::Acquire) > 0).await;
    let name = guard.name().clone();
    guard.release().await.expect("an answer");
    let guard = timeout(harness.limit(), waiting).await.expect("its turn comes").expect("no panic");
    guard.expect("granted").release().await.expect("an answer");
    until_free(harness, &holder, &name).await;
}

/// C19: a place in a queue outlives the shortest TTLs, and so do the tries of a withdrawal.
pub async fn c19_a_withdrawal_outlasts_a_short_ttl(harness: &dyn Harness) {
    let (holder, name) = (client(harness).await, fresh_name());
    let (leaver, faulty) = faulty_client(harness).await;
    let guard = holder.acquire(patient(&name, harness.long_ttl())).await.expect("a free lock");
    faulty.always(Operation::Withdraw, Fault::RequestLost);
    let hasty = patient(&name, harness.ttl()).wait(Wait::AtMost(Duration::from_millis(50)));
    let late = leaver.acquire(hasty).await;
    assert!(late.is_err(), "a wait for a lock that is held is to end without it: {late:?}");
    sleep(harness.ttl() + Duration::from_millis(200)).await;
    faulty.heal();
    let before = faulty.calls(Operation::Withdraw);
    eventually(harness, "it is withdrawn", async || faulty.calls(Operation::Withdraw) > before)
        .await;
    guard.release().await.expect("an answer");
}

/// C19: a request without an answer that arrives after the release of its hold acquires nothing.
pub async fn c19_a_request_that_outlived_its_hold_takes_nothing(harness: &dyn Harness) {
    let (client, faulty) = faulty_client(harness).await;
    let ttl = harness.long_ttl();
    for drops in [false, true] {
        let name = fresh_name();
        faulty.once(Operation::Acquire, Fault::RequestLost);
        let guard = client.acquire(patient(&name, ttl)).await.expect("the second try");
        let ghost = faulty.last_claim().expect("it was tried");
        if drops {
            drop(guard);
        } else {
            guard.release().await.expect("an answer");
        }
        // The janitor has finished by now, so the request may arrive.
        until_free(harness, &client, &name).await;
        until_refused(harness, &faulty, &ghost).await;
        until_free(harness, &client, &name).await;
    }
}

/// Waits until the late request of a claim has no effect: it is refused, or withdrawn.
async fn until_refused(harness: &dyn Harness, faulty: &Faulty, ghost: &Claim) {
    eventually(harness, "the late request takes nothing", async || {
        let late = faulty.acquire(ghost, None).await;
        !matches!(late, Ok(Attempt::Granted(_)))
    })
    .await;
}

/// C19: an exported lease says that a request of its claim may come late. Its last release refuses that request, in
/// this process and in another.
pub async fn c19_a_lease_that_is_handed_on_stays_unresolved(harness: &dyn Harness) {
    let (client, faulty) = faulty_client(harness).await;
    for exports in [false, true] {
        let name = fresh_name();
        faulty.once(Operation::Acquire, Fault::RequestLost);
        let request = patient(&name, harness.long_ttl());
        let guard = client.acquire(request).await.expect("the second try");
        let ghost = faulty.last_claim().expect("it was tried");
        let lease = guard.detach().expect("held");
        let lease = match exports {
            true => Lease::import(&lease.export()).expect("its own text"),
            false => lease,
        };
        client.attach(lease).await.expect("held").release().await.expect("an answer");
        until_refused(harness, &faulty, &ghost).await;
        until_free(harness, &client, &name).await;
    }
}

/// C19: cancelled tries at jammed locks delay no other lock: the guard of another lock is released long before its
/// TTL.
pub async fn c19_a_jammed_lock_costs_no_other(harness: &dyn Harness) {
    let (client, faulty) = faulty_client(harness).await;
    let (other, ttl) = (fresh_name(), harness.long_ttl());
    let guard = client.acquire(patient(&other, ttl)).await.expect("a free lock");
    let jammed: Vec<_> = (0..100).map(|_| fresh_name()).collect();
    jammed.iter().for_each(|name| faulty.jam(name));
    // Each lock once, and one of them many times.
    let tries = jammed.iter().chain(std::iter::repeat_n(&jammed[0], 100));
    let given_up = tries.map(|name| client.try_acquire(patient(name, ttl)));
    let given_up = given_up.map(|acquiring| timeout(Duration::from_millis(20), acquiring));
    let ended = join_all(given_up).await;
    assert!(ended.iter().all(Result::is_err), "a lock that is jammed is to be granted to nobody");
    drop(guard);
    let bound = harness.request_timeout() * 5;
    let freed = timeout(bound, until_free(harness, &client, &other)).await;
    assert!(
        freed.is_ok(),
        "a lock that was dropped is to be free within {bound:?}, though others are jammed"
    );
    faulty.heal();
    for name in &jammed {
        until_free(harness, &client, name).await;
    }
}

/// C20: a guard can be dropped on any thread, outside a runtime, and during unwinding; its lock is released.
pub async fn c20_a_guard_may_be_dropped_anywhere(harness: &dyn Harness) {
    let (client, name, ttl) = (client(harness).await, fresh_name(), harness.long_ttl());
    let guard = client.acquire(patient(&name, ttl)).await.expect("a free lock");
    drop(guard);
    let guard = client.acquire(patient(&name, ttl)).await.expect("given back by a task");
    std::thread::spawn(move || drop(guard)).join().expect("no panic outside a runtime");
    let guard = client.acquire(patient(&name, ttl)).await.expect("given back by a thread");
    let unwound = tokio::spawn(async move {
        let _guard = guard;
        std::panic::resume_unwind(Box::new("a panic of the test"));
    });
    assert!(unwound.await.is_err(), "the panic of the test is to go on");
    let guard = client.acquire(patient(&name, ttl)).await.expect("given back by an unwinding");
    let signal = guard.lost_signal();
    drop(guard);
    let told = signal.wait().await;
    assert_eq!(told, LostReason::Released, "a guard that was dropped is to be told as released");
    until_free(harness, &client, &name).await;
}

/// C21: after many calls were dropped in flight, each later caller gets its own reply.
pub async fn c21_no_reply_goes_to_the_wrong_caller(harness: &dyn Harness) {
    let (client, tag) = (client(harness).await, fresh_name());
    let name = |i: usize| format!("{tag}-{i}");
    let (client, name) = (&client, &name);
    let drop_and_ask = async |i: usize| {
        let (name, limit) = (name(i % 10), Duration::from_micros((i as u64 * 7) % 400));
        let _ = timeout(limit, client.try_acquire(&*name)).await;
        let state = answered(harness, async || client.admin().inspect(&name).await).await;
        let seen = state.name.as_str();
        assert_eq!(seen, name, "a reply is to go to the caller that asked for it");
    };
    // A server may answer one request at a time, and each caller waits for a second.
    for round in 0..10 {
        join_all((0..30).map(|i| drop_and_ask(round * 30 + i))).await;
    }
    eventually(harness, "everything dropped is given back", async || {
        answered(harness, async || client.admin().list(tag.as_str(), 100).await).await.is_empty()
    })
    .await;
    for i in 0..10 {
        let label = format!("label {i}");
        let request = LockRequest::new(name(i)).label(&label).wait(Wait::Never);
        let guard = client.acquire(request).await.expect("it is free");
        let state = answered(harness, async || client.admin().inspect(name(i)).await).await;
        let holder = state.holder().expect("held");
        let (seen, own) = ((holder.token, holder.label.as_str()), (Some(guard.token()), &*label));
        assert_eq!(seen, own, "an inspection is to show the token and the label of the holder");
        guard.release().await.expect("an answer");
    }
}
