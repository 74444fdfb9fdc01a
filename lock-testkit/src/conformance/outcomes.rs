//! C14 to C18: every call has a truthful outcome, in time.

use std::fmt::Debug;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::harness::Harness;
use super::steps::{
    answered, attempt, claim, client, eventually, faulty_client, fresh_name, held_by, patient,
    unhurried_client, until_free,
};
use crate::{Fault, Operation};
use lock_core::backend::{Attempt, Release};
use lock_core::{Lease, LockError, LockRequest, LostReason, Outcome, Wait};

/// C14: a busy lock reports its holder and the TTL left.
pub async fn c14_busy_tells_what_is_known(harness: &dyn Harness) {
    let (holder, other, name) = (client(harness).await, client(harness).await, fresh_name());
    let ttl = harness.ttl() * 10;
    let request = patient(&name, ttl).label("the holder: ü");
    let guard = holder.acquire(request).await.expect("a free lock");
    let busy = other.acquire(LockRequest::from(&name).wait(Wait::Never)).await;
    let Err(LockError::NotAcquired { name: told, contention }) = busy else {
        panic!("a lock that is held is to be busy, and we were told {busy:?}");
    };
    assert_eq!(told, name, "a busy lock is to be told by its name");
    let label = contention.holder.expect("a busy lock is to tell the label of its holder");
    assert_eq!(label.as_str(), "the holder: ü", "a label is to be told as it was given");
    let left = contention.ttl_left.expect("a busy lock is to tell the TTL that is left");
    let is_right = left > ttl / 2 && left <= ttl + Duration::from_secs(2);
    assert!(is_right, "a busy lock is to tell the TTL that is left of {ttl:?}: {left:?}");
    let state =
        other.admin().inspect(&name).await.expect("an answer").holder().cloned().expect("held");
    assert_eq!(state.token, Some(guard.token()), "an inspection is to show the holder's token");
    assert_eq!(state.label.as_str(), "the holder: ü", "an inspection is to show the label");
    let tried = other.try_acquire(&name).await.expect("an answer");
    assert!(tried.is_none(), "a lock that is held is to be granted to nobody else");
    guard.release().await.expect("an answer");
    drop(other.try_acquire(&name).await.expect("an answer").expect("it is free"));
}

/// C14: a bounded wait ends in time, and leaves nothing in the queue.
pub async fn c14_a_bounded_wait_times_out(harness: &dyn Harness) {
    let (holder, other, name) = (client(harness).await, client(harness).await, fresh_name());
    let guard = holder.acquire(patient(&name, harness.ttl() * 10)).await.expect("a free lock");
    let (wait, asked) = (Duration::from_millis(300), Instant::now());
    let late = other.acquire(LockRequest::from(&name).wait(Wait::AtMost(wait))).await;
    told_as_timeout(late);
    let (waited, bound) = (asked.elapsed(), wait + Duration::from_millis(100) + harness.slack());
    let in_time = waited >= wait && waited < bound;
    assert!(
        in_time,
        "a wait of {wait:?} is to end by {bound:?}, not sooner than asked: {waited:?}"
    );
    eventually(harness, "a wait that ended leaves no place in the queue", async || {
        let state = answered(harness, async || holder.admin().inspect(&name).await).await;
        state.waiters.unwrap_or(0) == 0
    })
    .await;
    guard.release().await.expect("an answer");
    until_free(harness, &holder, &name).await;
}

fn told_as_timeout<T: Debug>(acquired: Result<T, LockError>) {
    let is_timeout = matches!(acquired, Err(LockError::Timeout { .. }));
    assert!(is_timeout, "a bounded wait is to end as a time-out: {acquired:?}");
}

/// C14, S5: the release of a hold that somebody ended reports it, and leaves the hold of the next holder.
pub async fn c14_releasing_what_is_lost_is_not_held(harness: &dyn Harness) {
    let (client, other, name) = (client(harness).await, client(harness).await, fresh_name());
    let ttl = harness.ttl() * 10;
    let guard = client.acquire(patient(&name, ttl)).await.expect("a free lock");
    harness.evict(&name).await;
    let next = other.acquire(patient(&name, ttl)).await.expect("it is free");
    assert_lost(guard.release().await);
    let holder = client.admin().inspect(&name).await.expect("an answer").holder().cloned();
    let token = holder.and_then(|holder| holder.token);
    assert_eq!(token, Some(next.token()), "a release is to leave the hold of another alone");
    let released = next.release_confirmed().await.expect("an answer");
    assert_eq!(released, Release::Released, "a release of a hold is to be told as released");
}

/// C14: a release that was refused at first, and then finds no hold, does not claim that it ended one: somebody else
/// did.
pub async fn c14_a_refused_release_claims_nothing(harness: &dyn Harness) {
    let (client, faulty) = faulty_client(harness).await;
    let name = fresh_name();
    let guard = client.acquire(patient(&name, harness.ttl() * 10)).await.expect("a free lock");
    harness.evict(&name).await;
    faulty.once(Operation::Release, Fault::Refused);
    let released = guard.release_confirmed().await.expect("an answer");
    assert_eq!(
        released,
        Release::NotHeld,
        "a hold that somebody else ended is to be told as not held"
    );
}

fn assert_lost(released: Result<(), LockError>) {
    let is_lost = matches!(released, Err(LockError::Lost { .. }));
    assert!(is_lost, "a release is to tell that the hold was lost: {released:?}");
}

/// C47: a release reports a loss: it cannot look like a normal end.
pub async fn c47_a_release_tells_of_a_loss(harness: &dyn Harness) {
    let (client, name) = (client(harness).await, fresh_name());
    let known = client.acquire(patient(&name, harness.ttl())).await.expect("a free lock");
    harness.evict(&name).await;
    timeout(harness.limit(), known.lost()).await.expect("the loss is told");
    assert_lost(known.release().await);
    let unnoticed = client.acquire(patient(&name, harness.long_ttl())).await.expect("a free lock");
    harness.evict(&name).await;
    assert_lost(unnoticed.release().await);
    let kept = client.acquire(patient(&name, harness.long_ttl())).await.expect("a free lock");
    kept.release().await.expect("it was held to the end");
}

/// C47: a server that does not answer a release is no error of the work; the lock is released once it answers.
pub async fn c47_a_silent_server_is_no_error_of_the_work(harness: &dyn Harness) {
    let (client, faulty) = faulty_client(harness).await;
    for fault in [Fault::Silence, Fault::RequestLost, Fault::Refused] {
        let name = fresh_name();
        let guard = client.acquire(patient(&name, harness.long_ttl())).await.expect("a free lock");
        faulty.always(Operation::Release, fault);
        guard.release().await.expect("the work was done under the lock");
        faulty.heal();
        until_free(harness, &client, &name).await;
    }
}

/// C15, S8: an error tells if the request was carried out, and unknown stays unknown.
pub async fn c15_an_error_tells_whether_it_was_applied(harness: &dyn Harness) {
    let (client, faulty) = faulty_client(harness).await;
    let cases = [(Fault::Refused, Outcome::NotApplied), (Fault::RequestLost, Outcome::Unknown)];
    for (fault, outcome) in cases {
        let name = fresh_name();
        faulty.always(Operation::Acquire, fault);
        let failed = client.acquire(LockRequest::from(&name).wait(Wait::Never)).await;
        let Err(LockError::Backend { source, .. }) = failed else {
            panic!("a failure of the server is to be told as an error, not as {failed:?}");
        };
        assert_eq!(source.outcome(), outcome, "{fault:?} is to be told with its outcome");
        assert!(source.is_transient(), "{fault:?} is to be worth another try");
        faulty.heal();
    }
    let name = fresh_name();
    let guard = client.acquire(patient(&name, harness.ttl() * 10)).await.expect("a free lock");
    faulty.always(Operation::Release, Fault::RequestLost);
    let unknown = guard.release_confirmed().await;
    let is_error = matches!(unknown, Err(LockError::Backend { .. }));
    assert!(is_error, "a release without an answer is to be an error, not a no: {unknown:?}");
    faulty.heal();
    until_free(harness, &client, &name).await;
}

/// C16: a repeat by the same owner finds its own grant, with the same token.
pub async fn c16_a_repeated_acquire_finds_its_own_grant(harness: &dyn Harness) {
    let (backend, name) = (harness.connect().await, fresh_name());
    let claim = claim(&name, harness.ttl() * 10);
    let mut tokens = Vec::new();
    for _ in 0..3 {
        match attempt(&*backend, &claim).await {
            Attempt::Granted(grant) => tokens.push(grant.token),
            Attempt::Busy(seen) => {
                panic!("a repeat is to find its own grant, and was told: {seen}")
            }
        }
    }
    let is_one = tokens.iter().all(|token| *token == tokens[0]);
    assert!(is_one, "a repeat is to find its grant with the same token: {tokens:?}");
    let released = backend.release(&name, claim.owner).await.expect("an answer");
    assert_eq!(released, Release::Released, "a release of a hold is to be told as released");
    let again = backend.release(&name, claim.owner).await.expect("an answer");
    assert_eq!(again, Release::NotHeld, "a release of nothing is to be told as not held");
}

/// C16: an acquire whose reply was lost succeeds on the next try.
pub async fn c16_an_acquire_whose_reply_was_lost_is_granted(harness: &dyn Harness) {
    let (client, faulty) = faulty_client(harness).await;
    for (fault, wait) in [(Fault::ReplyLost, Wait::Never), (Fault::SilenceAfter, Wait::Forever)] {
        let name = fresh_name();
        faulty.once(Operation::Acquire, fault);
        let request = patient(&name, harness.ttl() * 10).wait(wait);
        let guard = client.acquire(request).await.expect("our own grant");
        let holder = held_by(&client, &name).await;
        let own = Some(guard.token());
        assert_eq!(holder.token, own, "a repeat after a lost reply is to find its own grant");
        guard.release().await.expect("an answer");
    }
}

/// C16: a release whose reply was lost is a release.
pub async fn c16_a_release_whose_reply_was_lost_is_released(harness: &dyn Harness) {
    let (client, faulty) = faulty_client(harness).await;
    for fault in [Fault::ReplyLost, Fault::RequestLost, Fault::SilenceAfter] {
        let name = fresh_name();
        let guard = client.acquire(patient(&name, harness.ttl() * 10)).await.expect("a free lock");
        faulty.once(Operation::Release, fault);
        let released = guard.release_confirmed().await.expect("an answer");
        assert_eq!(released, Release::Released, "a release is to be told as one after {fault:?}");
        until_free(harness, &client, &name).await;
    }
}

/// C17, L3: with a server that never answers, every call returns within its time-out.
pub async fn c17_every_call_returns_in_time(harness: &dyn Harness) {
    let (client, faulty) = faulty_client(harness).await;
    let name = fresh_name();
    let ttl = harness.ttl() * 100;
    let guard = client.acquire(patient(&fresh_name(), ttl)).await.expect("a free lock");
    let lease = client.acquire(patient(&fresh_name(), ttl)).await.expect("free").detach();
    let lease = lease.expect("held");
    for operation in [
        Operation::Acquire,
        Operation::Extend,
        Operation::Release,
        Operation::Inspect,
        Operation::List,
    ] {
        faulty.always(operation, Fault::Silence);
    }
    let (short, limit) = (Duration::from_millis(200), harness.request_timeout());
    let acquire =
        async |wait| client.acquire(LockRequest::from(&fresh_name()).wait(wait)).await.is_err();
    let guard = async {
        in_time(harness, limit, async { guard.extend(ttl).await.is_err() }).await;
        in_time(harness, limit, async { guard.release_confirmed().await.is_err() }).await;
    };
    tokio::join!(
        in_time(harness, short, acquire(Wait::AtMost(short))),
        in_time(harness, limit, acquire(Wait::Never)),
        in_time(harness, limit * 5, acquire(Wait::Forever)),
        in_time(harness, limit, async { client.admin().inspect(&name).await.is_err() }),
        in_time(harness, limit, async { client.admin().list("", 1).await.is_err() }),
        in_time(harness, limit, async { client.attach(lease).await.is_err() }),
        guard,
    );
    faulty.heal();
    client.shutdown().await;
}

async fn in_time(harness: &dyn Harness, limit: Duration, call: impl Future<Output = bool>) {
    let asked = Instant::now();
    assert!(call.await, "a call without an answer of the server is to fail");
    let (took, bound) = (asked.elapsed(), limit + Duration::from_millis(100) + harness.slack());
    assert!(took <= bound, "a call is to return within {bound:?}: it took {took:?}");
}

/// C18: a wait of zero, and no wait, are one attempt at a busy lock, without a place in the queue.
pub async fn c18_a_wait_of_zero_is_one_attempt(harness: &dyn Harness) {
    let holder = client(harness).await;
    let (other, faulty) = unhurried_client(harness).await;
    let name = fresh_name();
    let guard = holder.acquire(patient(&name, harness.long_ttl())).await.expect("a free lock");
    for wait in [Wait::Never, Wait::AtMost(Duration::ZERO)] {
        let before = faulty.calls(Operation::Acquire);
        let busy = other.acquire(LockRequest::from(&name).wait(wait)).await;
        assert!(busy.is_err(), "a lock that is held is to be granted to nobody else");
        let tries = faulty.calls(Operation::Acquire) - before;
        assert_eq!(tries, 1, "{wait:?} is to be one attempt");
        let waiters = holder.admin().inspect(&name).await.expect("an answer").waiters.unwrap_or(0);
        assert_eq!(waiters, 0, "{wait:?} is to take no place in the queue");
    }
    guard.release().await.expect("an answer");
    for wait in [Wait::Never, Wait::AtMost(Duration::ZERO), Wait::AtMost(Duration::MAX)] {
        let guard = other.acquire(LockRequest::from(&name).wait(wait)).await.expect("it is free");
        guard.release().await.expect("an answer");
    }
}

/// A lease can be taken out of its guard, exported, and put under a guard elsewhere.
pub async fn a_lease_is_detached_and_attached(harness: &dyn Harness) {
    let (first, second, name) = (client(harness).await, client(harness).await, fresh_name());
    let ttl = harness.ttl() * 4;
    let guard = first.acquire(patient(&name, ttl)).await.expect("a free lock");
    let (token, signal) = (guard.token(), guard.lost_signal());
    let text = guard.detach().expect("held").export();
    let told = signal.reason();
    assert_eq!(
        told,
        Some(LostReason::Released),
        "a guard without its lease is to be told as released"
    );
    let lease = Lease::import(&text).expect("an exported lease");
    let guard = second.attach(lease).await.expect("still held");
    assert_eq!(guard.token(), token, "a lease is to keep its token under another guard");
    let start = guard.deadline();
    eventually(harness, "the new guard renews it", async || guard.deadline() != start).await;
    guard.release().await.expect("it was held");
    let lost = second.attach(Lease::import(&text).expect("an exported lease")).await;
    let is_lost = matches!(lost, Err(LockError::Lost { .. }));
    assert!(is_lost, "a lease that was released is not to be attached: {lost:?}");
}

/// C48: a wait that is shorter than an answer takes is a time-out, and no error of the server.
pub async fn c48_a_wait_shorter_than_an_answer_times_out(harness: &dyn Harness) {
    let (client, faulty) = faulty_client(harness).await;
    let (name, asked) = (fresh_name(), Instant::now());
    faulty.always(Operation::Acquire, Fault::Late(harness.moment()));
    for millis in [1, 5, 20] {
        let wait = Wait::AtMost(Duration::from_millis(millis));
        let short = client.acquire(LockRequest::from(&name).wait(wait)).await;
        told_as_timeout(short);
    }
    let (took, bound) = (asked.elapsed(), harness.request_timeout() + harness.slack());
    assert!(took < bound, "three short waits are to end within {bound:?}: they took {took:?}");
    faulty.heal();
    until_free(harness, &client, &name).await;
}

/// C14: a wait in line behind another task is a time-out, even if no time is left to ask.
pub async fn c14_a_wait_spent_in_line_times_out(harness: &dyn Harness) {
    let (client, faulty) = faulty_client(harness).await;
    let name = fresh_name();
    faulty.always(Operation::Acquire, Fault::Late(harness.request_timeout()));
    let bounded = |wait| client.acquire(LockRequest::from(&name).wait(Wait::AtMost(wait)));
    let limit = harness.request_timeout();
    let (first, second) = tokio::join!(bounded(limit / 4), bounded(limit / 3));
    told_as_timeout(first);
    told_as_timeout(second);
    until_free(harness, &client, &name).await;
}
