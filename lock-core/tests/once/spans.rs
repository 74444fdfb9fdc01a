//! C41: the span for which others are kept out.

use std::future::pending;
use std::time::Duration;

use futures_util::FutureExt;
use lock_core::{InputKind, Lease, LockClient, LockError, LostReason, MemoryBackend, OnceOutcome};
use lock_testkit::{Fault, Operation};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::{HOUR, MINUTE, SECOND, SPAN, faulty_client, until_free};

/// C41: a short run keeps others out for the span, counted from its start, and hardly longer.
#[tokio::test(start_paused = true)]
async fn c41_a_short_run_keeps_others_out_for_the_span() {
    let store = MemoryBackend::new();
    let (one, other) = (LockClient::new(store.clone()), LockClient::new(store));
    let ran = one.once("job").at_least(SPAN).run(async |_| sleep(SPAN / 2).await).await;
    ran.expect("an answer").ran().expect("a free lock").into_value().expect("held to the end");
    let kept = until_free(&other).await;
    assert!(kept >= SPAN / 2 && kept < SPAN / 2 + SPAN / 100, "{kept:?}");
}

/// C41: the span begins with the run, after a slow answer to the extension.
#[tokio::test(start_paused = true)]
async fn c41_a_slow_extension_shortens_no_span() {
    let (client, faulty, other) = faulty_client();
    faulty.once(Operation::Extend, Fault::Late(3 * SECOND / 2));
    let ran = client.once("job").at_least(SPAN).run(async |_| Instant::now()).await;
    let began = ran.expect("an answer").ran().expect("a free lock").value;
    sleep_until(began + SPAN - SECOND / 100).await;
    assert!(other.try_acquire("job").await.expect("an answer").is_none(), "too early");
}

/// C41: a run that takes longer than the span lets others in at its end.
#[tokio::test(start_paused = true)]
async fn c41_a_long_run_lets_others_in_at_its_end() {
    let (client, faulty, other) = faulty_client();
    let ran = client.once("job").at_least(SECOND).run(async |_| sleep(SPAN).await).await;
    ran.expect("an answer").ran().expect("a free lock").into_value().expect("held to the end");
    assert_eq!(faulty.calls(Operation::Release), 1);
    assert!(other.try_acquire("job").await.expect("an answer").is_some());
}

/// C41: a run that is cancelled, fails or panics keeps others out as well.
#[tokio::test(start_paused = true)]
async fn c41_a_run_that_does_not_end_well_keeps_others_out() {
    let store = MemoryBackend::new();
    let (one, other) = (LockClient::new(store.clone()), LockClient::new(store));
    let once = || one.once("job").at_least(SPAN).occurrence("x");
    let cancelled = timeout(SECOND, once().run(async |_| pending::<()>().await)).await;
    assert!(cancelled.is_err(), "{cancelled:?}");
    let kept = until_free(&other).await;
    assert!(kept >= SPAN - SECOND && kept < SPAN + SPAN / 50, "{kept:?}");

    let run = once().run(async |_| panic!("a bug of the job"));
    let panicked = std::panic::AssertUnwindSafe(run).catch_unwind().await;
    assert!(panicked.is_err(), "{panicked:?}");
    assert!(until_free(&other).await >= SPAN - SECOND);

    let failed = once().try_run(async |_| Err::<(), _>("a failure")).await.expect("an answer");
    let failed = failed.ran().expect("neither of them is recorded");
    assert!(failed.value.is_err() && failed.hold.is_ok(), "{failed:?}");
    assert!(until_free(&other).await >= SPAN - SECOND);
}

/// C41: no request ends a run within its span, however it ends.
#[tokio::test(start_paused = true)]
async fn c41_no_request_ends_a_run_within_its_span() {
    for end in [End::Drop, End::Release, End::ReleaseConfirmed, End::Shutdown] {
        let (client, faulty, other) = faulty_client();
        let guard = client.once("job").at_least(SPAN).begin().await.expect("an answer").ran();
        let (began, guard) = (Instant::now(), guard.expect("a free lock"));
        match end {
            End::Drop => drop(guard),
            End::Release => guard.release().await.expect("held to the end"),
            End::ReleaseConfirmed => drop(guard.release_confirmed().await.expect("no request")),
            End::Shutdown => client.shutdown().await,
        }
        until_free(&other).await;
        let kept = began.elapsed();
        assert!(kept >= SPAN && kept < SPAN + SPAN / 50, "{kept:?} after {end:?}");
        let ends = [Operation::Release, Operation::Withdraw].map(|sent| faulty.calls(sent));
        assert_eq!(ends, [0, 0], "{end:?}");
    }
}

#[derive(Debug)]
enum End {
    Drop,
    Release,
    ReleaseConfirmed,
    Shutdown,
}

/// C41, C26: a hold within its span does not pass to the next task of the client.
#[tokio::test(start_paused = true)]
async fn c41_a_run_within_its_span_passes_to_nobody() {
    let (client, _, _) = faulty_client();
    let guard = client.once("job").at_least(SPAN).begin().await.expect("an answer").ran();
    let (began, guard) = (Instant::now(), guard.expect("a free lock"));
    let next = client.acquire("job");
    let (next, ()) = tokio::join!(next, async {
        sleep(SECOND).await;
        guard.release().await.expect("held to the end");
    });
    next.expect("granted in the end").release().await.expect("held to the end");
    assert!(began.elapsed() >= SPAN, "{:?}", began.elapsed());
}

/// C41: a claim with a request that may arrive late keeps others out too.
#[tokio::test(start_paused = true)]
async fn c41_a_claim_that_is_unresolved_keeps_others_out() {
    let (client, faulty, other) = faulty_client();
    faulty.once(Operation::Acquire, Fault::Silence);
    let guard = client.once("job").at_least(SPAN).begin().await.expect("an answer");
    let began = Instant::now();
    drop(guard.ran().expect("a free lock"));
    until_free(&other).await;
    assert!(began.elapsed() >= SPAN, "{:?}", began.elapsed());
}

/// C41: a process that dies keeps others out for the span, or for its TTL if that is longer.
#[tokio::test(start_paused = true)]
async fn c41_a_crash_keeps_others_out_for_the_longer_of_span_and_ttl() {
    // Lifetime; the earliest time after which others may get in, and the latest delay after it.
    for (lived, least, most) in [
        (Duration::ZERO, SPAN, SPAN + 2 * SECOND),
        (SPAN / 2, SPAN, SPAN + 31 * SECOND),
        (3 * SPAN, 3 * SPAN + 10 * SECOND, 3 * SPAN + 31 * SECOND),
    ] {
        let (client, faulty, other) = faulty_client();
        let guard = client.once("job").at_least(SPAN).ttl(30 * SECOND).begin().await;
        let (began, guard) = (Instant::now(), guard.expect("an answer").ran().expect("free"));
        sleep(lived).await;
        assert!(guard.is_held(), "it is renewed");
        for operation in [Operation::Extend, Operation::Release] {
            faulty.always(operation, Fault::Silence);
        }
        until_free(&other).await;
        let kept = began.elapsed();
        assert!(kept >= least && kept <= most, "{kept:?} after it lived for {lived:?}");
    }
}

/// C41: a slow answer shortens no span, also after a crash.
#[tokio::test(start_paused = true)]
async fn c41_a_crash_after_a_slow_answer_keeps_others_out_for_the_span() {
    for (slow, ttl) in [(Operation::Acquire, SPAN), (Operation::Extend, 30 * SECOND)] {
        let (client, faulty, other) = faulty_client();
        faulty.once(slow, Fault::Late(SECOND * 9 / 10));
        let guard = client.once("job").at_least(SPAN).ttl(ttl).begin().await;
        let (began, _guard) = (Instant::now(), guard.expect("an answer").ran().expect("free"));
        for operation in [Operation::Extend, Operation::Release] {
            faulty.always(operation, Fault::Silence);
        }
        sleep_until(began + SPAN - SECOND / 100).await;
        let early = other.try_acquire("job").await.expect("an answer");
        assert!(early.is_none(), "too early, after a slow {slow:?}");
    }
}

/// C41, C19: a grant whose answer was lost costs one TTL, not the span.
#[tokio::test(start_paused = true)]
async fn c41_a_grant_that_nobody_learned_of_costs_one_ttl() {
    for fault in [Fault::SilenceAfter, Fault::ReplyLost] {
        let (client, faulty, other) = faulty_client();
        faulty.always(Operation::Acquire, fault);
        // The process ends before it can take anything back.
        faulty.always(Operation::Withdraw, Fault::Silence);
        let unknown = client.once("job").at_least(SPAN).ttl(30 * SECOND).begin().await;
        assert!(unknown.is_err(), "{unknown:?}");
        let kept = until_free(&other).await;
        assert!(kept <= 32 * SECOND, "{kept:?} after {fault:?}");
    }
}

/// C41, C19: a run that did not begin keeps nobody out, whether it failed or was given up.
#[tokio::test(start_paused = true)]
async fn c41_a_run_that_did_not_begin_keeps_nobody_out() {
    for fault in [Fault::Silence, Fault::SilenceAfter, Fault::RequestLost, Fault::ReplyLost] {
        for patience in [SECOND / 10, MINUTE] {
            let (client, faulty, other) = faulty_client();
            faulty.always(Operation::Extend, fault);
            let begun = timeout(patience, client.once("job").at_least(SPAN).begin()).await;
            assert!(!matches!(begun, Ok(Ok(_))), "{begun:?}");
            let kept = until_free(&other).await;
            assert!(kept <= SECOND, "{kept:?} after {fault:?}");
        }
    }
}

/// C41, C19: a run that may have begun on the server is not forgotten by the janitor before the span is over.
#[tokio::test(start_paused = true)]
async fn c41_what_may_have_been_taken_for_the_span_is_given_back_in_it() {
    let (client, faulty, other) = faulty_client();
    faulty.always(Operation::Extend, Fault::SilenceAfter);
    faulty.always(Operation::Release, Fault::Silence);
    let unknown = client.once("job").at_least(SPAN).ttl(30 * SECOND).begin().await;
    assert!(matches!(unknown, Err(LockError::Backend { .. })), "{unknown:?}");
    sleep(5 * MINUTE).await;
    faulty.heal();
    let kept = until_free(&other).await;
    assert!(kept <= 5 * SECOND, "{kept:?} after the server answers again");
}

/// C41, C8: a run that keeps others out for long learns of its loss at the pace of its TTL.
#[tokio::test(start_paused = true)]
async fn c41_a_loss_is_noticed_at_the_pace_of_the_ttl() {
    let store = MemoryBackend::new();
    let (one, other) = (LockClient::new(store.clone()), LockClient::new(store));
    for lived in [Duration::ZERO, 4 * MINUTE, 12 * MINUTE] {
        let run = one.once("job").at_least(10 * MINUTE).ttl(30 * SECOND).begin();
        let guard = run.await.expect("an answer").ran().expect("a free lock");
        sleep(lived).await;
        assert!(guard.is_held(), "it is renewed");
        other.admin().evict("job").await.expect("an answer");
        let evicted = Instant::now();
        assert_eq!(guard.lost().await, LostReason::Evicted);
        let noticed = evicted.elapsed();
        assert!(noticed <= 11 * SECOND, "{noticed:?} after it lived for {lived:?}");
    }
}

/// C41, C13: a run that hangs is dropped after its bound, at the latest one TTL later.
#[tokio::test(start_paused = true)]
async fn c41_a_run_that_hangs_loses_the_lock() {
    let locks = LockClient::new(MemoryBackend::new());
    let (began, run) = (Instant::now(), locks.once("job").at_most(SPAN).ttl(30 * SECOND));
    let hung = run.occurrence("x").run(async |_| pending::<()>().await).await;
    assert!(matches!(hung, Err(LockError::Lost { reason: LostReason::MaxHold, .. })), "{hung:?}");
    assert!(began.elapsed() >= SPAN - SECOND && began.elapsed() <= SPAN + 30 * SECOND);
    until_free(&locks).await;
    let next = locks.once("job").occurrence("x").run(async |_| ()).await.expect("an answer");
    assert!(next.ran().is_some(), "what was lost is not recorded");
}

/// C41, C13: the bound also holds within the span, for which others stay out.
#[tokio::test(start_paused = true)]
async fn c41_a_bound_ends_a_run_within_its_span() {
    for ttl in [30 * SECOND, 3 * MINUTE] {
        let locks = LockClient::new(MemoryBackend::new());
        let run = locks.once("job").at_least(SPAN).at_most(MINUTE).ttl(ttl);
        let began = Instant::now();
        let hung = run.run(async |_| pending::<()>().await).await;
        let is_bound = matches!(hung, Err(LockError::Lost { reason: LostReason::MaxHold, .. }));
        assert!(is_bound, "{hung:?}");
        let took = began.elapsed();
        assert!(took >= MINUTE - SECOND && took <= MINUTE + ttl, "it ran for {took:?}");
        until_free(&locks).await;
        let kept = began.elapsed();
        assert!(kept >= SPAN && kept < SPAN + SPAN / 50, "{kept:?}");
    }
}

/// C41: a run that is handed on keeps others out for the rest of its span, on every client.
#[tokio::test(start_paused = true)]
async fn c41_a_run_that_is_handed_on_keeps_others_out() {
    let store = MemoryBackend::new();
    let (one, other) = (LockClient::new(store.clone()), LockClient::new(store));
    for by_text in [false, true] {
        let began = Instant::now();
        let guard = one.once("job").at_least(SPAN).begin().await.expect("an answer").ran();
        sleep(SPAN / 6).await;
        let lease = guard.expect("a free lock").detach().expect("held");
        let lease = if by_text { Lease::import(&lease.export()).expect("its own") } else { lease };
        sleep(SPAN / 12).await;
        let guard = other.attach(lease).await.expect("the server keeps it");
        guard.release().await.expect("held to the end");
        until_free(&one).await;
        let kept = began.elapsed();
        assert!(kept >= SPAN && kept < SPAN + SPAN / 10, "{kept:?}, by text: {by_text}");
    }
}

/// C41, C42: invalid input is refused before anything is sent.
#[tokio::test]
async fn c41_a_bad_run_is_refused_before_any_io() {
    let (client, faulty, _) = faulty_client();
    let refused = [
        client.once("").begin().await,
        client.once("job").at_least(25 * HOUR).begin().await,
        client.once("job").at_least(Duration::ZERO).begin().await,
        client.once("job").occurrence("").begin().await,
        client.once("job").occurrence("a\nb").begin().await,
        client.once("job").label("l".repeat(200)).begin().await,
        client.once("job").occurrence("x").remember(Duration::ZERO).begin().await,
        client.once("job").occurrence("x").remember(11 * 366 * 24 * HOUR).begin().await,
    ];
    assert!(refused.iter().all(Result::is_err), "{refused:?}");
    let third = refused[3].as_ref().err();
    assert!(
        matches!(third, Some(LockError::Invalid(input)) if input.kind() == InputKind::Occurrence),
        "{refused:?}"
    );
    // The text names the part and its limits.
    for (bad, said, limits) in
        [(1, "at least 90000s", "10 ms to 24 h"), (6, "for 0ns", "ten years")]
    {
        let text = refused[bad].as_ref().expect_err("refused").to_string();
        assert!(text.contains(said) && text.contains(limits), "{text}");
    }
    let calls = [Operation::Acquire, Operation::Runs].map(|sent| faulty.calls(sent));
    assert_eq!(calls, [0, 0]);
}

/// C41: who waits for a run learns of its record within a second, though the lock stays held for the span.
#[tokio::test(start_paused = true)]
async fn c41_who_waits_learns_of_the_record_and_not_of_the_end_of_the_span() {
    let store = MemoryBackend::new();
    let [one, other] = [LockClient::new(store.clone()), LockClient::new(store)];
    let once = |client: &LockClient| client.once("job").at_least(HOUR).occurrence("x");
    let guard = once(&one).begin().await.expect("an answer").ran().expect("a free lock");
    let began = Instant::now();
    let (outcome, ()) = tokio::join!(once(&other).wait(2 * HOUR).begin(), async {
        sleep(MINUTE).await;
        guard.record("x", HOUR).await.expect("it is held");
        guard.release().await.expect("held to the end");
    });
    assert!(matches!(outcome, Ok(OnceOutcome::Done(_))), "{outcome:?}");
    assert!(began.elapsed() < MINUTE + 3 * SECOND, "{:?}", began.elapsed());
}
