//! C5, C7 to C9: the deadline of a holder's belief, and the signal of its loss.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, timeout};

use super::harness::Harness;
use super::steps::{client, eventually, faulty_client, fresh_name, patient};
use crate::{Fault, Operation};
use lock_core::{Drift, LockClient, LockError, LockGuard, LockRequest, LostReason, Wait};

/// C5, S7: a slow answer shortens the remaining time; it does not move the deadline.
pub async fn c05_the_deadline_counts_from_before_the_request(harness: &dyn Harness) {
    let (client, faulty) = faulty_client(harness).await;
    let (name, ttl) = (fresh_name(), harness.ttl() * 2);
    // An attempt is given up after half of the request time-out.
    let (acquire_delay, renewal_delay) = ((ttl / 3).min(harness.request_timeout() / 3), ttl / 16);
    faulty.once(Operation::Acquire, Fault::Late(acquire_delay));
    faulty.always(Operation::Extend, Fault::Late(renewal_delay));
    let validity = Drift::default().validity(ttl);
    let asked = |operation| faulty.called_at(operation).expect("a request");
    let guard = client.acquire(patient(&name, ttl)).await.expect("a free lock");
    let first = guard.deadline();
    let counted = asked(Operation::Acquire).after(validity).has_reached(first);
    assert!(counted, "a deadline is to count from before the request, not from the reply");
    eventually(harness, "the lock is renewed", async || guard.deadline() != first).await;
    let renewed = guard.deadline();
    let counted = asked(Operation::Extend).after(validity).has_reached(renewed);
    assert!(counted, "a renewed deadline is to count from before the renewal, not from its reply");
    guard.release().await.expect("an answer");
}

/// C5: a grant that arrives after its own deadline is given back, not returned.
pub async fn c05_a_grant_that_comes_too_late_is_not_returned(harness: &dyn Harness) {
    let (client, faulty) = faulty_client(harness).await;
    let (name, ttl) = (fresh_name(), Duration::from_millis(20));
    faulty.always(Operation::Acquire, Fault::Late(ttl * 3));
    let late = client.acquire(LockRequest::from(&name).ttl(ttl).wait(Wait::Never)).await;
    let times_out = matches!(late, Err(LockError::Timeout { .. }));
    assert!(times_out, "a grant that came after its deadline is to be a time-out: {late:?}");
    faulty.heal();
    let guard =
        client.acquire(patient(&name, harness.long_ttl())).await.expect("it was given back");
    guard.release().await.expect("an answer");
}

/// C7: `is_held` is right even if none of our tasks has run since.
pub async fn c07_is_held_reads_the_clock(harness: &dyn Harness) {
    let (client, faulty) = faulty_client(harness).await;
    let ttl = harness.ttl() * 2;
    faulty.always(Operation::Extend, Fault::Silence);
    let guard = client.acquire(patient(&fresh_name(), ttl)).await.expect("a free lock");
    let fresh = guard.is_held() && guard.remaining() > ttl / 2;
    assert!(fresh, "a new hold is to last for most of its TTL: {:?} left", guard.remaining());
    // The thread sleeps, as in a pause: nothing is polled, and no timer of this task fires.
    std::thread::sleep(ttl);
    let over = !guard.is_held() && guard.remaining().is_zero();
    assert!(over, "a guard is to see by the clock alone that its deadline is past");
    let told = guard.lost_signal().reason();
    assert_eq!(
        told,
        Some(LostReason::Expired),
        "a hold past its deadline is to be told as expired"
    );
}

/// C8: the signal can be cloned, and awaited before and after; it carries the first reason.
pub async fn c08_the_signal_is_sticky_and_tells_the_reason(harness: &dyn Harness) {
    let (client, name) = (client(harness).await, fresh_name());
    let guard = client.acquire(patient(&name, harness.ttl() * 3)).await.expect("a free lock");
    let before = guard.lost_signal();
    assert_eq!(before.reason(), None, "a hold is not to be told as lost while it lasts");
    let waiting = tokio::spawn({
        let signal = before.clone();
        async move { signal.wait().await }
    });
    harness.evict(&name).await;
    let reason =
        timeout(harness.limit(), waiting).await.expect("the loss is told").expect("no panic");
    assert_eq!(reason, LostReason::Evicted, "a holder is to learn that it was evicted");
    for signal in [before, guard.lost_signal()] {
        let told = (signal.wait().await, signal.reason());
        let evicted = (LostReason::Evicted, Some(LostReason::Evicted));
        assert_eq!(told, evicted, "a signal is to keep its reason, for clones too");
    }
    drop(guard);
}

/// C8: a temporary failure of a renewal is no loss.
pub async fn c08_a_transient_error_is_no_loss(harness: &dyn Harness) {
    let (client, faulty) = faulty_client(harness).await;
    let mut ttl = harness.ttl() * 2;
    loop {
        let before = faulty.calls(Operation::Extend);
        for fault in [Fault::Refused, Fault::RequestLost, Fault::ReplyLost] {
            faulty.once(Operation::Extend, fault);
        }
        let guard = client.acquire(patient(&fresh_name(), ttl)).await.expect("a free lock");
        let first = guard.deadline();
        eventually(harness, "it is renewed after the errors, or over", async || {
            guard.deadline() != first || !guard.is_held()
        })
        .await;
        let calls = faulty.calls(Operation::Extend) - before;
        if guard.deadline() != first {
            assert!(calls > 3, "a renewal is to be tried again: {calls} calls after 3 errors");
            return guard.release().await.expect("an answer");
        }
        // A busy machine may have no time for four renewals: then the test repeats with a longer TTL.
        ttl *= 2;
        assert!(ttl < harness.limit(), "a renewal that fails for now is to cost no hold");
    }
}

/// C8, C13: an expired hold reports the error of its last renewal. A hold that reached its bound reports the bound,
/// and no failure.
pub async fn c08_a_loss_names_its_cause(harness: &dyn Harness) {
    let faults = [Fault::Forbidden, Fault::RequestLost, Fault::Silence, Fault::Panic];
    let causes = faults.map(Some).into_iter().chain([None]);
    join_all(causes.map(async |cause| {
        let (client, faulty) = faulty_client(harness).await;
        cause.iter().for_each(|fault| faulty.always(Operation::Extend, *fault));
        let request = patient(&fresh_name(), harness.ttl());
        let request = if cause.is_none() { request.max_hold(harness.ttl() / 2) } else { request };
        let guard = client.acquire(request).await.expect("a free lock");
        timeout(harness.limit(), guard.lost()).await.expect("its deadline comes");
        let told = guard.release().await;
        let names_cause = match &told {
            Err(LockError::Lost { reason: LostReason::Expired, source, .. }) => {
                cause.is_some() && source.is_some()
            }
            Err(LockError::Lost { reason: LostReason::MaxHold, source, .. }) => {
                cause.is_none() && source.is_none()
            }
            _ => false,
        };
        assert!(names_cause, "a loss by {cause:?} is to name its cause: {told:?}");
    }))
    .await;
}

/// C8: a loss that the backend itself sees is signalled at once, however much of the TTL is left.
pub async fn c08_a_loss_that_is_seen_is_told(harness: &dyn Harness) {
    let (client, faulty) = faulty_client(harness).await;
    let (name, kept) = (fresh_name(), fresh_name());
    let guard = client.acquire(patient(&name, harness.limit() * 10)).await.expect("a free lock");
    let other = client.acquire(patient(&kept, harness.limit() * 10)).await.expect("a free lock");
    assert_eq!(faulty.watched(), 2, "each hold is to be watched");
    faulty.see_loss(&name);
    let reason = timeout(harness.limit(), guard.lost()).await.expect("the loss is told");
    assert_eq!(reason, LostReason::Evicted, "the loss is to be told as an eviction");
    assert!(other.is_held(), "a loss is to cost no other hold of the client");
    drop((guard, other));
    eventually(harness, "nothing is watched any more", async || faulty.watched() == 0).await;
}

/// C9, L4: if the network swallows everything, the loss is signalled at the deadline, not later.
pub async fn c09_a_hung_renewal_does_not_delay_the_signal(harness: &dyn Harness) {
    let (client, faulty) = faulty_client(harness).await;
    faulty.always(Operation::Extend, Fault::Silence);
    let asked = Instant::now();
    let ttl = harness.ttl();
    let guard = client.acquire(patient(&fresh_name(), ttl)).await.expect("a free lock");
    let reason = timeout(harness.limit(), guard.lost()).await.expect("the loss is told");
    told_by_the_deadline(harness, reason, asked.elapsed(), ttl);
}

/// C9: the loss is signalled even if the client's first runtime is gone, and a hold with an observer is renewed.
pub async fn c09_the_loss_is_told_without_the_renewers_runtime(harness: &dyn Harness) {
    let (client, faulty) = faulty_client(harness).await;
    let ttl = harness.ttl() * 2;
    let first = elsewhere(client.clone(), patient(&fresh_name(), ttl)).await;
    let deadline = first.deadline();
    let renewed = eventually(harness, "it is renewed", async || first.deadline() != deadline);
    tokio::select! {
        reason = first.lost() => panic!("lost on a healthy server: {reason}"),
        () = renewed => {}
    }
    faulty.always(Operation::Extend, Fault::Silence);
    let (asked, second) = (Instant::now(), elsewhere(client, patient(&fresh_name(), ttl)).await);
    let signal = second.lost_signal();
    let reason = timeout(harness.limit(), signal.wait()).await.expect("the loss is told");
    told_by_the_deadline(harness, reason, asked.elapsed(), ttl);
}

/// L4: a loss is signalled at most 50 ms after the deadline, which is within a TTL of the request.
fn told_by_the_deadline(harness: &dyn Harness, why: LostReason, took: Duration, ttl: Duration) {
    assert_eq!(why, LostReason::Expired, "a hold that nobody could renew is to be told as expired");
    let bound = ttl + Duration::from_millis(50) + harness.slack();
    assert!(
        took <= bound,
        "a loss is to be told {bound:?} after the request at the latest: {took:?}"
    );
}

/// Acquires on a runtime that is gone when this returns.
async fn elsewhere(client: LockClient, request: LockRequest) -> LockGuard {
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(client.acquire(request)).expect("a free lock")
    });
    tokio::task::spawn_blocking(|| thread.join()).await.expect("no panic").expect("no panic")
}
