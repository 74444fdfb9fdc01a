//! C41: a job that one of several processes runs.
//!
//! The tests use another client to see that others are kept out: it tries all the time, and must not be granted the
//! lock too early. A busy machine only makes the span longer, so it fails no sound backend.

use std::future::pending;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::harness::Harness;
use super::steps::{answered, client, eventually, faulty_client, fresh_name, patient};
use crate::{Fault, Operation};
use lock_core::{
    DistributedLock, Drift, Lease, LockClient, LockError, LockName, LostReason, Once, OnceOutcome,
};

/// C41: waiters are served when the span is over.
pub async fn c41_those_who_wait_are_served_after_the_span(harness: &dyn Harness) {
    let (holder, waiter, name) = (client(harness).await, client(harness).await, fresh_name());
    let Some(run) = at_least(harness, &holder, &name, harness.ttl() * 2).await else { return };
    let (began, guard) = (Instant::now(), begun(run).await);
    let waiting = tokio::spawn({
        let (waiter, request) = (waiter.clone(), patient(&name, harness.ttl() * 3));
        async move { waiter.acquire(request).await.expect("granted in the end") }
    });
    eventually(harness, "it waits", async || {
        let state = answered(harness, async || waiter.admin().inspect(&name).await).await;
        state.waiters.unwrap_or(1) > 0
    })
    .await;
    guard.release().await.expect("held to the end");
    let next = timeout(harness.limit(), waiting).await.expect("it is served").expect("no panic");
    assert_kept(began.elapsed(), harness.ttl() * 2);
    next.release().await.expect("held to the end");
}

/// C41, C20: others are kept out after a dropped run, and after the shutdown of its client.
pub async fn c41_a_dropped_run_keeps_others_out(harness: &dyn Harness) {
    let (other, name) = (client(harness).await, fresh_name());
    for ending in [Ending::Drop, Ending::Shutdown] {
        let client = client(harness).await;
        let Some(run) = at_least(harness, &client, &name, harness.ttl() * 2).await else { return };
        let (began, guard) = (Instant::now(), begun(run).await);
        match ending {
            Ending::Drop => drop(guard),
            Ending::Shutdown => timeout(harness.limit(), client.shutdown()).await.expect("drained"),
        }
        until_begun(harness, &other, &name).await;
        assert_kept(began.elapsed(), harness.ttl() * 2);
    }
}

enum Ending {
    Drop,
    Shutdown,
}

/// C41: others are kept out after a run whose process died, and at most for its TTL after that.
pub async fn c41_a_run_that_died_keeps_others_out(harness: &dyn Harness) {
    let (other, name) = (client(harness).await, fresh_name());
    let (client, faulty) = faulty_client(harness).await;
    let Some(run) = at_least(harness, &client, &name, harness.ttl() * 3).await else { return };
    let (began, guard) = (Instant::now(), begun(run).await);
    for operation in [Operation::Extend, Operation::Release] {
        faulty.always(operation, Fault::Silence);
    }
    until_begun(harness, &other, &name).await;
    assert_kept(began.elapsed(), harness.ttl() * 3);
    drop(guard);
}

/// C41, C19: a grant whose reply was lost, and that nobody withdraws, keeps others out for its TTL, and not for the
/// span.
pub async fn c41_a_grant_that_nobody_learned_of_costs_one_ttl(harness: &dyn Harness) {
    let (other, name) = (client(harness).await, fresh_name());
    let (client, faulty) = faulty_client(harness).await;
    let Some(run) = at_least(harness, &client, &name, harness.limit() * 4).await else { return };
    faulty.always(Operation::Acquire, Fault::SilenceAfter);
    faulty.always(Operation::Withdraw, Fault::Silence);
    let unknown = run.begin().await;
    assert!(unknown.is_err(), "a run is not to begin without an answer: {unknown:?}");
    until_begun(harness, &other, &name).await;
}

/// C41, C8: a run that keeps others out for long notices its loss at the pace of its TTL.
pub async fn c41_a_loss_is_noticed_at_the_pace_of_the_ttl(harness: &dyn Harness) {
    let (client, name) = (client(harness).await, fresh_name());
    let Some(run) = at_least(harness, &client, &name, harness.limit() * 4).await else { return };
    let guard = begun(run).await;
    harness.evict(&name).await;
    let told = timeout(harness.limit(), guard.lost()).await;
    assert!(told.is_ok(), "a holder is to learn of its loss long before its span is over");
}

/// C41, C13: a run that hangs ends at its bound, though the server keeps the lock for longer.
pub async fn c41_a_bound_ends_a_run_within_its_span(harness: &dyn Harness) {
    let (one, other, name) = (client(harness).await, client(harness).await, fresh_name());
    let Some(run) = at_least(harness, &one, &name, harness.limit() * 4).await else { return };
    let hung = run.at_most(harness.ttl()).run(async |_| pending::<()>().await);
    let hung = timeout(harness.limit(), hung).await;
    let is_ended = matches!(hung, Ok(Err(LockError::Lost { reason: LostReason::MaxHold, .. })));
    assert!(is_ended, "a run is to end at its bound: {hung:?}");
    let second = other.once(name.as_str()).begin().await.expect("an answer");
    assert!(matches!(second, OnceOutcome::Skipped(_)), "others are to be kept out: {second:?}");
    harness.evict(&name).await;
}

/// C41: others are kept out after a run that was handed on to another process.
pub async fn c41_a_run_that_is_handed_on_keeps_others_out(harness: &dyn Harness) {
    let (one, other, name) = (client(harness).await, client(harness).await, fresh_name());
    let Some(run) = at_least(harness, &one, &name, harness.ttl() * 2).await else { return };
    let (began, guard) = (Instant::now(), begun(run).await);
    let text = guard.detach().expect("held").export();
    let handed_on = other.attach(Lease::import(&text).expect("its own text")).await;
    handed_on.expect("held").release().await.expect("held to the end");
    until_begun(harness, &other, &name).await;
    assert_kept(began.elapsed(), harness.ttl() * 2);
}

/// C41, C10: others are kept out after a run that was handed on and whose new process died.
pub async fn c41_a_run_that_is_handed_on_and_dies_keeps_others_out(harness: &dyn Harness) {
    let (one, (two, faulty)) = (client(harness).await, faulty_client(harness).await);
    let (other, name) = (client(harness).await, fresh_name());
    let Some(run) = at_least(harness, &one, &name, harness.ttl() * 4).await else { return };
    let (began, guard) = (Instant::now(), begun(run).await);
    let text = guard.detach().expect("held").export();
    let handed_on = two.attach(Lease::import(&text).expect("its own text")).await.expect("held");
    for operation in [Operation::Extend, Operation::Release] {
        faulty.always(operation, Fault::Silence);
    }
    until_begun(harness, &other, &name).await;
    assert_kept(began.elapsed(), harness.ttl() * 4);
    drop(handed_on);
}

/// C41: a process that comes second is skipped, and learns the label of the first.
pub async fn c41_of_those_that_start_at_once_one_runs(harness: &dyn Harness) {
    let (one, other, name) = (client(harness).await, client(harness).await, fresh_name());
    let once = |client: &LockClient| client.once(name.as_str()).ttl(harness.ttl() * 3);
    let ran = once(&one).label("host-7").run(async |held| {
        let second = once(&other).run(async |_| panic!("two runs at once")).await;
        let OnceOutcome::Skipped(by) = second.expect("an answer") else {
            panic!("a run is to be skipped while another has the lock");
        };
        assert_eq!(by.holder.expect("a holder").as_str(), "host-7", "it is to be told by whom");
        held.token()
    });
    let finished = ran.await.expect("an answer").ran().expect("a free lock");
    let first = finished.into_value().expect("held to the end");
    // Without `at_least` the next process runs.
    let next = once(&other).run(async |held| held.token()).await.expect("an answer");
    let next = next.ran().expect("a free lock").into_value().expect("held to the end");
    assert!(next > first, "each run is to have a greater token");
}

/// C41: a run that waits is done when the present one is recorded, though that keeps the lock for its span, and runs
/// the job itself when the present one failed.
pub async fn c41_a_run_that_waits_is_done_or_runs_itself(harness: &dyn Harness) {
    let Some(_) = running_once(harness).await else { return };
    for is_recorded in [true, false] {
        let (one, other, name) = (client(harness).await, client(harness).await, fresh_name());
        let once = |client: &LockClient| client.once(name.as_str()).occurrence("x");
        let present = once(&one).ttl(harness.long_ttl());
        let span = harness.limit() * 4;
        let guard = begun(if is_recorded { present.at_least(span) } else { present }).await;
        let token = guard.token();
        let waits = once(&other).ttl(harness.ttl() * 3).wait(harness.limit() * 2);
        let present_ends = async {
            eventually(harness, "it waits", async || {
                let state = answered(harness, async || one.admin().inspect(&name).await).await;
                state.waiters.unwrap_or(1) > 0
            })
            .await;
            if is_recorded {
                guard.record("x", harness.limit() * 60).await.expect("it is held");
            }
            guard.release().await.expect("held to the end");
        };
        let outcome = timeout(harness.limit(), waits.run(async |held| held.token()));
        let (outcome, ()) = tokio::join!(outcome, present_ends);
        match (is_recorded, outcome.expect("it is to see the end").expect("an answer")) {
            (true, OnceOutcome::Done(by)) => assert_eq!(by, token, "it tells the present run"),
            (false, OnceOutcome::Ran(ran)) => assert!(ran.value > token, "it runs under its own"),
            (_, other) => panic!("recorded: {is_recorded}, and yet {other:?}"),
        }
        harness.evict(&name).await;
    }
}

/// C41: a run that waits is skipped at the end of the wait. A wait that would only run the job twice is refused.
pub async fn c41_a_run_that_waits_in_vain_is_skipped(harness: &dyn Harness) {
    let (one, other, name) = (client(harness).await, client(harness).await, fresh_name());
    let once = |client: &LockClient| client.once(name.as_str()).ttl(harness.long_ttl());
    let guard = begun(once(&one).label("host-7")).await;
    let late = once(&other).wait(harness.request_timeout()).begin().await.expect("an answer");
    let OnceOutcome::Skipped(by) = late else { panic!("a run is not to begin: {late:?}") };
    assert_eq!(by.holder.expect("a holder").as_str(), "host-7", "it is to be told by whom");
    let twice = once(&other).wait(harness.ttl()).at_least(harness.ttl()).begin().await;
    assert!(matches!(twice, Err(LockError::Invalid(_))), "it would run twice: {twice:?}");
    guard.release().await.expect("held to the end");
}

/// Returns a backend that delays releases and records runs. A backend without this refuses before anything is sent.
pub(super) async fn running_once(
    harness: &dyn Harness,
) -> Option<std::sync::Arc<dyn DistributedLock>> {
    let (client, backend) = (client(harness).await, harness.connect().await);
    at_least(harness, &client, &fresh_name(), harness.ttl()).await.map(|_| backend)
}

/// Begins a run that keeps others out for `span`; `None` if the backend reports that it cannot.
async fn at_least(
    harness: &dyn Harness,
    client: &LockClient,
    name: &LockName,
    span: Duration,
) -> Option<Once> {
    let run = client.once(name.as_str()).ttl(harness.ttl()).at_least(span);
    if harness.connect().await.run_records().is_some() {
        return Some(run);
    }
    let refused = run.begin().await;
    let is_told = matches!(refused, Err(LockError::Unsupported { .. }));
    assert!(is_told, "what a backend cannot do is to be told: {refused:?}");
    None
}

async fn begun(run: Once) -> lock_core::LockGuard {
    run.begin().await.expect("an answer").ran().expect("a free lock")
}

/// Tries until a run begins, and ends it.
async fn until_begun(harness: &dyn Harness, client: &LockClient, name: &LockName) {
    let end = Instant::now() + harness.limit();
    loop {
        match client.once(name.as_str()).ttl(harness.ttl()).begin().await.expect("an answer") {
            OnceOutcome::Ran(guard) => return guard.release().await.expect("held to the end"),
            skipped => assert!(Instant::now() < end, "others are to get in again: {skipped:?}"),
        }
        sleep(harness.ttl() / 50).await;
    }
}

/// Asserts that others were kept out for the span, less the difference of the clocks.
pub(super) fn assert_kept(kept: Duration, span: Duration) {
    let least = Drift::default().validity(span);
    assert!(kept >= least, "the server is to keep others out for {span:?}, and did for {kept:?}");
}
