//! C14 to C18: every call has a truthful outcome, in time.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::{
    Fault, Harness, LIMIT, Operation, REQUEST_TIMEOUT, SLACK, claim, client, eventually,
    faulty_client, fresh_name, patient, until_free,
};
use lock_core::backend::{Attempt, Release, Renewal};
use lock_core::{Lease, LeaseExt, LockError, LockRequest, LostReason, Outcome, Ttl, Wait};

/// C14: a busy lock says who holds it, and for how long.
pub async fn c14_busy_tells_what_is_known(harness: &dyn Harness) {
    let (holder, other, name) = (client(harness).await, client(harness).await, fresh_name());
    let ttl = harness.ttl() * 10;
    let request = patient(&name, ttl).label("the holder: ü");
    let guard = holder.acquire(request).await.expect("a free lock");
    let busy = other.acquire(LockRequest::from(&name).wait(Wait::Never)).await;
    let Err(LockError::NotAcquired { name: told, contention }) = busy else {
        panic!("it is held, and we were told {busy:?}");
    };
    assert_eq!(told, name);
    assert_eq!(contention.holder.expect("a label").as_str(), "the holder: ü");
    let left = contention.ttl_left.expect("a TTL");
    assert!(left > ttl / 2 && left <= ttl + Duration::from_secs(2), "{left:?} left of {ttl:?}");
    let state = other.inspect(&name).await.expect("an answer").holder.expect("held");
    assert_eq!(state.token, Some(guard.token()));
    assert_eq!(state.label.as_str(), "the holder: ü");
    assert!(other.try_acquire(&name).await.expect("an answer").is_none());
    guard.release().await.expect("an answer");
    drop(other.try_acquire(&name).await.expect("an answer").expect("it is free"));
}

/// C14: a bounded wait ends in time, and leaves nothing in the queue.
pub async fn c14_a_bounded_wait_times_out(harness: &dyn Harness) {
    let (holder, other, name) = (client(harness).await, client(harness).await, fresh_name());
    let guard = holder.acquire(patient(&name, harness.ttl() * 10)).await.expect("a free lock");
    let (wait, asked) = (Duration::from_millis(300), Instant::now());
    let late = other.acquire(LockRequest::from(&name).wait(Wait::AtMost(wait))).await;
    assert!(matches!(late, Err(LockError::Timeout { .. })), "{late:?}");
    let waited = asked.elapsed();
    assert!(waited >= wait && waited < wait + Duration::from_millis(100) + SLACK, "{waited:?}");
    guard.release().await.expect("an answer");
    until_free(&holder, &name).await;
}

/// C14, S5: giving back what somebody ended says so, and leaves the hold of the next one alone.
pub async fn c14_releasing_what_is_lost_is_not_held(harness: &dyn Harness) {
    let (client, other, name) = (client(harness).await, client(harness).await, fresh_name());
    let ttl = harness.ttl() * 10;
    let guard = client.acquire(patient(&name, ttl)).await.expect("a free lock");
    harness.evict(&name).await;
    let next = other.acquire(patient(&name, ttl)).await.expect("it is free");
    assert_lost(guard.release().await);
    let holder = client.inspect(&name).await.expect("an answer").holder.expect("held");
    assert_eq!(holder.token, Some(next.token()), "the release hit another's hold");
    assert_eq!(next.release_confirmed().await.expect("an answer"), Release::Released);
}

/// C14: a release that was refused at first, and then finds nothing, does not claim the end of a hold
/// that somebody else ended.
pub async fn c14_a_refused_release_claims_nothing(harness: &dyn Harness) {
    let (client, faulty) = faulty_client(harness).await;
    let name = fresh_name();
    let guard = client.acquire(patient(&name, harness.ttl() * 10)).await.expect("a free lock");
    harness.evict(&name).await;
    faulty.once(Operation::Release, Fault::Refused);
    assert_eq!(guard.release_confirmed().await.expect("an answer"), Release::NotHeld);
}

fn assert_lost(released: Result<(), LockError>) {
    assert!(matches!(released, Err(LockError::Lost { .. })), "{released:?}");
}

/// C47: a release tells whether the hold lasted: a loss cannot pass for an end.
pub async fn c47_a_release_tells_of_a_loss(harness: &dyn Harness) {
    let (client, name) = (client(harness).await, fresh_name());
    let known = client.acquire(patient(&name, harness.ttl())).await.expect("a free lock");
    harness.evict(&name).await;
    timeout(LIMIT, known.lost()).await.expect("the loss is told");
    assert_lost(known.release().await);
    let unnoticed = client.acquire(patient(&name, LIMIT)).await.expect("a free lock");
    harness.evict(&name).await;
    assert_lost(unnoticed.release().await);
    let kept = client.acquire(patient(&name, LIMIT)).await.expect("a free lock");
    kept.release().await.expect("it was held to the end");
}

/// C47: a server that does not answer a release is no error of the work; the lock is given back once it
/// answers.
pub async fn c47_a_silent_server_is_no_error_of_the_work(harness: &dyn Harness) {
    let (client, faulty) = faulty_client(harness).await;
    for fault in [Fault::Silence, Fault::RequestLost, Fault::Refused] {
        let name = fresh_name();
        let guard = client.acquire(patient(&name, LIMIT * 2)).await.expect("a free lock");
        faulty.always(Operation::Release, fault);
        guard.release().await.expect("the work was done under the lock");
        faulty.heal();
        until_free(&client, &name).await;
    }
}

/// C15, S8: an error says whether the request was carried out, and unknown stays unknown.
pub async fn c15_an_error_tells_whether_it_was_applied(harness: &dyn Harness) {
    let (client, faulty) = faulty_client(harness).await;
    let cases = [(Fault::Refused, Outcome::NotApplied), (Fault::RequestLost, Outcome::Unknown)];
    for (fault, outcome) in cases {
        let name = fresh_name();
        faulty.always(Operation::TryAcquire, fault);
        let failed = client.acquire(LockRequest::from(&name).wait(Wait::Never)).await;
        let Err(LockError::Backend { source, .. }) = failed else {
            panic!("nobody holds it, and we were told {failed:?}");
        };
        assert_eq!(source.outcome(), outcome);
        assert!(source.is_transient());
        faulty.heal();
    }
    let name = fresh_name();
    let guard = client.acquire(patient(&name, harness.ttl() * 10)).await.expect("a free lock");
    faulty.always(Operation::Release, Fault::RequestLost);
    let unknown = guard.release_confirmed().await;
    assert!(matches!(unknown, Err(LockError::Backend { .. })), "{unknown:?}");
    faulty.heal();
    until_free(&client, &name).await;
}

/// C16: a repeat by the same owner finds its own grant, with the same token.
pub async fn c16_a_repeated_acquire_finds_its_own_grant(harness: &dyn Harness) {
    let (backend, name) = (harness.connect().await, fresh_name());
    let claim = claim(&name, harness.ttl() * 10);
    let mut tokens = Vec::new();
    for _ in 0..3 {
        match backend.try_acquire(&claim, None).await.expect("an answer") {
            Attempt::Granted(grant) => tokens.push(grant.token),
            Attempt::Busy(seen) => panic!("our own hold is in our way: {seen}"),
        }
    }
    assert!(tokens.iter().all(|token| *token == tokens[0]), "{tokens:?}");
    assert_eq!(backend.release(&name, claim.owner).await.expect("an answer"), Release::Released);
    assert_eq!(backend.release(&name, claim.owner).await.expect("an answer"), Release::NotHeld);
}

/// C16: an acquire whose reply was lost succeeds on the next try.
pub async fn c16_an_acquire_whose_reply_was_lost_is_granted(harness: &dyn Harness) {
    let (client, faulty) = faulty_client(harness).await;
    for (fault, wait) in [(Fault::ReplyLost, Wait::Never), (Fault::SilenceAfter, Wait::Forever)] {
        let name = fresh_name();
        faulty.once(Operation::TryAcquire, fault);
        let request = patient(&name, harness.ttl() * 10).wait(wait);
        let guard = client.acquire(request).await.expect("our own grant");
        let holder = client.inspect(&name).await.expect("an answer").holder.expect("held");
        assert_eq!(holder.token, Some(guard.token()));
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
        assert_eq!(released, Release::Released, "{fault:?}");
        until_free(&client, &name).await;
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
        Operation::TryAcquire,
        Operation::ExtendAll,
        Operation::Release,
        Operation::Inspect,
        Operation::List,
    ] {
        faulty.always(operation, Fault::Silence);
    }
    let short = Duration::from_millis(200);
    let request = |wait| LockRequest::from(&name).wait(wait);
    in_time(short, async { client.acquire(request(Wait::AtMost(short))).await.is_err() }).await;
    in_time(REQUEST_TIMEOUT, async { client.acquire(request(Wait::Never)).await.is_err() }).await;
    in_time(REQUEST_TIMEOUT, async { guard.extend(ttl).await.is_err() }).await;
    in_time(REQUEST_TIMEOUT, async { client.inspect(&name).await.is_err() }).await;
    in_time(REQUEST_TIMEOUT, async { client.list("", 1).await.is_err() }).await;
    in_time(REQUEST_TIMEOUT, async { client.attach(lease).await.is_err() }).await;
    in_time(REQUEST_TIMEOUT, async { guard.release_confirmed().await.is_err() }).await;
    let outage = REQUEST_TIMEOUT * 5;
    in_time(outage, async { client.acquire(request(Wait::Forever)).await.is_err() }).await;
    faulty.heal();
    client.shutdown().await;
}

async fn in_time(limit: Duration, call: impl Future<Output = bool>) {
    let asked = Instant::now();
    assert!(call.await, "a call succeeded without an answer of the server");
    let took = asked.elapsed();
    assert!(took <= limit + Duration::from_millis(100) + SLACK, "{took:?} at a limit of {limit:?}");
}

/// C18: a wait of zero, and no wait, are one attempt on a busy lock, and no place in the queue.
pub async fn c18_a_wait_of_zero_is_one_attempt(harness: &dyn Harness) {
    let holder = client(harness).await;
    let (other, faulty) = faulty_client(harness).await;
    let name = fresh_name();
    let guard = holder.acquire(patient(&name, harness.ttl() * 10)).await.expect("a free lock");
    for wait in [Wait::Never, Wait::AtMost(Duration::ZERO)] {
        let before = faulty.calls(Operation::TryAcquire);
        let busy = other.acquire(LockRequest::from(&name).wait(wait)).await;
        assert!(busy.is_err(), "two holders");
        assert_eq!(faulty.calls(Operation::TryAcquire), before + 1);
        assert_eq!(holder.inspect(&name).await.expect("an answer").waiters.unwrap_or(0), 0);
    }
    guard.release().await.expect("an answer");
    for wait in [Wait::Never, Wait::AtMost(Duration::ZERO), Wait::AtMost(Duration::MAX)] {
        let guard = other.acquire(LockRequest::from(&name).wait(wait)).await.expect("it is free");
        guard.release().await.expect("an answer");
    }
}

/// A lease can be taken out of its guard, written down, and put under a guard elsewhere.
pub async fn a_lease_is_detached_and_attached(harness: &dyn Harness) {
    let (first, second, name) = (client(harness).await, client(harness).await, fresh_name());
    let ttl = harness.ttl() * 2;
    let guard = first.acquire(patient(&name, ttl)).await.expect("a free lock");
    let (token, signal) = (guard.token(), guard.lost_signal());
    let text = guard.detach().expect("held").export();
    assert_eq!(signal.reason(), Some(LostReason::Released));
    let lease = Lease::import(&text).expect("an exported lease");
    let guard = second.attach(lease).await.expect("still held");
    assert_eq!(guard.token(), token);
    let start = guard.deadline();
    eventually("the new guard renews it", async || guard.deadline() != start).await;
    guard.release().await.expect("it was held");
    let lost = second.attach(Lease::import(&text).expect("an exported lease")).await;
    assert!(matches!(lost, Err(LockError::Lost { .. })), "{lost:?}");
}

/// The trait alone acquires without waiting, within a bound and for ever; extends, and releases.
pub async fn the_trait_acquires_without_a_client(harness: &dyn Harness) {
    let (backend, name) = (harness.connect().await, fresh_name());
    let request = patient(&name, harness.ttl() * 2);
    let lease =
        backend.acquire_lease(&request.clone().wait(Wait::Never)).await.expect("a free lock");
    let busy = backend.acquire_lease(&request.clone().wait(Wait::Never)).await;
    assert!(matches!(busy, Err(LockError::NotAcquired { .. })), "{busy:?}");
    let late = backend.acquire_lease(&request.clone().wait(Wait::AtMost(SLACK))).await;
    assert!(matches!(late, Err(LockError::Timeout { .. })), "{late:?}");
    let renewal = Renewal::new(&lease, Ttl::new(harness.ttl() * 2).expect("a good TTL"));
    backend.extend(&renewal).await.expect("an answer");
    let waiting = tokio::spawn({
        let (backend, request) = (backend.clone(), request.wait(Wait::Forever));
        async move { backend.acquire_lease(&request).await }
    });
    backend.release(&name, lease.owner()).await.expect("an answer");
    let next = timeout(LIMIT, waiting).await.expect("its turn comes");
    let next = next.expect("no panic").expect("granted");
    assert!(next.token() > lease.token());
    backend.release(&name, next.owner()).await.expect("an answer");
}

/// C48: a wait that is shorter than an answer takes is a time-out: it says nothing of the server.
pub async fn c48_a_wait_shorter_than_an_answer_times_out(harness: &dyn Harness) {
    let (client, faulty) = faulty_client(harness).await;
    let (name, asked) = (fresh_name(), Instant::now());
    faulty.always(Operation::TryAcquire, Fault::Late(SLACK));
    for millis in [1, 5, 20] {
        let wait = Wait::AtMost(Duration::from_millis(millis));
        let short = client.acquire(LockRequest::from(&name).wait(wait)).await;
        assert!(matches!(short, Err(LockError::Timeout { .. })), "{short:?}");
    }
    assert!(asked.elapsed() < REQUEST_TIMEOUT + SLACK, "took {:?}", asked.elapsed());
    faulty.heal();
    until_free(&client, &name).await;
}

/// C14: a wait that was spent in line behind a mate is a time-out, also if no time is left to ask.
pub async fn c14_a_wait_spent_in_line_times_out(harness: &dyn Harness) {
    let (client, faulty) = faulty_client(harness).await;
    let name = fresh_name();
    faulty.always(Operation::TryAcquire, Fault::Late(REQUEST_TIMEOUT));
    let bounded = |wait| client.acquire(LockRequest::from(&name).wait(Wait::AtMost(wait)));
    let (first, second) = tokio::join!(bounded(REQUEST_TIMEOUT / 4), bounded(REQUEST_TIMEOUT / 3));
    assert!(matches!(first, Err(LockError::Timeout { .. })), "{first:?}");
    assert!(matches!(second, Err(LockError::Timeout { .. })), "{second:?}");
    until_free(&client, &name).await;
}
