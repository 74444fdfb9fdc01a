//! C42: the record of a run.

use std::time::Duration;

use lock_core::{LockClient, LockError, LockRequest, MemoryBackend, OnceOutcome};
use lock_testkit::{Fault, Operation};
use tokio::time::{Instant, sleep};

use crate::{HOUR, SECOND, SPAN, faulty_client, until_free};

/// C42: an evicted run is not recorded, even if its work succeeded.
#[tokio::test(start_paused = true)]
async fn c42_a_run_that_lost_its_lock_is_not_recorded() {
    let store = MemoryBackend::new();
    let (one, other) = (LockClient::new(store.clone()), LockClient::new(store));
    let run = one.once("job").occurrence("x").run(async |_| {
        other.admin().evict("job").await.expect("an answer");
        "the work of it"
    });
    let ran = run.await.expect("an answer").ran().expect("a free lock");
    assert_eq!(ran.value, "the work of it");
    assert!(matches!(ran.hold, Err(LockError::Lost { .. })), "{:?}", ran.hold);
    let next = other.once("job").occurrence("x").run(async |_| ()).await.expect("an answer");
    assert!(next.ran().is_some(), "a run that lost its lock is not to be recorded");
}

/// C42: a run that was recorded between the first look and the grant is found, and the lock is released.
#[tokio::test(start_paused = true)]
async fn c42_a_run_that_was_recorded_in_between_is_done() {
    let (client, faulty, other) = faulty_client();
    // The first look is answered late, with the state before the other client's run.
    faulty.once(Operation::Runs, Fault::Late(SECOND));
    let late = client.once("job").at_least(SPAN).occurrence("x").run(async |_| panic!("twice"));
    let first = async {
        sleep(SECOND / 2).await;
        other.once("job").occurrence("x").run(async |held| held.token()).await
    };
    let (late, first) = tokio::join!(late, first);
    let token = first.expect("an answer").ran().expect("a free lock").value;
    let late = late.expect("an answer");
    assert!(matches!(late, OnceOutcome::Done(by) if by == token), "{late:?}");
    assert!(until_free(&other).await <= SECOND, "what did not run keeps nobody out");
}

/// C42: a server that is down for a part of the TTL costs no record, and nobody gets in meanwhile.
#[tokio::test(start_paused = true)]
async fn c42_a_record_is_tried_for_as_long_as_the_lock_is_held() {
    for fault in [Fault::Refused, Fault::RequestLost, Fault::ReplyLost, Fault::Silence] {
        let (client, faulty, other) = faulty_client();
        let away = [Operation::Record, Operation::Extend];
        away.iter().for_each(|operation| faulty.always(*operation, fault));
        let run = client.once("job").ttl(30 * SECOND).occurrence("x").run(async |_| 42);
        let (ran, ()) = tokio::join!(run, async {
            sleep(15 * SECOND).await;
            assert!(other.try_acquire("job").await.expect("an answer").is_none(), "too early");
            faulty.heal();
        });
        let ran = ran.expect("an answer").ran().expect("a free lock");
        assert_eq!(ran.into_value().expect("held to the end, and recorded"), 42, "{fault:?}");
        let again = other.once("job").occurrence("x").run(async |_| ()).await.expect("an answer");
        assert!(matches!(again, OnceOutcome::Done(_)), "{again:?} after {fault:?}");
    }
}

/// C42: an outage of nearly a TTL costs no record, if a renewal saves the hold at the last moment.
#[tokio::test(start_paused = true)]
async fn c42_a_record_is_tried_on_when_a_renewal_saves_the_hold() {
    let (client, faulty, _) = faulty_client();
    faulty.always(Operation::Extend, Fault::RequestLost);
    let run = client.once("job").ttl(30 * SECOND).occurrence("x").run(async |_| {
        // The work ends shortly before the deadline.
        sleep(26 * SECOND).await;
        faulty.always(Operation::Record, Fault::RequestLost);
        faulty.always(Operation::Extend, Fault::Late(Duration::ZERO));
    });
    let (ran, ()) = tokio::join!(run, async {
        sleep(35 * SECOND).await;
        faulty.heal();
    });
    ran.expect("an answer").ran().expect("a free lock").into_value().expect("recorded");
}

/// C42, S8: at the deadline the outcome is unknown, and nobody got in before.
#[tokio::test(start_paused = true)]
async fn c42_a_run_is_unrecorded_at_the_deadline_and_not_before() {
    for (renewals, fault) in
        [(true, Fault::Silence), (false, Fault::Silence), (true, Fault::Refused)]
    {
        let (client, faulty, other) = faulty_client();
        faulty.always(Operation::Record, fault);
        if !renewals {
            faulty.always(Operation::Extend, fault);
        }
        let began = Instant::now();
        let run = client.once("job").ttl(30 * SECOND).occurrence("x").run(async |_| 42);
        let (ran, kept) = tokio::join!(run, async {
            sleep(SECOND).await;
            until_free(&other).await
        });
        let ran = ran.expect("an answer").ran().expect("a free lock");
        assert_eq!(ran.value, 42);
        assert!(matches!(ran.hold, Err(LockError::Unrecorded { .. })), "{:?}", ran.hold);
        assert!(kept >= 28 * SECOND, "another got in after {kept:?}");
        assert!(began.elapsed() <= 33 * SECOND, "{:?}", began.elapsed());
    }
}

/// C42: a permanent refusal is reported at once.
#[tokio::test(start_paused = true)]
async fn c42_a_record_that_is_refused_is_told_at_once() {
    let (client, faulty, _) = faulty_client();
    faulty.always(Operation::Record, Fault::Forbidden);
    let began = Instant::now();
    let ran = client.once("job").occurrence("x").run(async |_| ()).await.expect("an answer");
    let hold = ran.ran().expect("a free lock").hold;
    assert!(matches!(hold, Err(LockError::Unrecorded { .. })), "{hold:?}");
    assert!(began.elapsed() < SECOND, "{:?}", began.elapsed());
}

/// C42, C16, S8: a run is recorded even if its record had no answer and its hold has ended since.
#[tokio::test(start_paused = true)]
async fn c42_a_record_without_an_answer_stands_after_the_loss() {
    let (client, faulty, other) = faulty_client();
    faulty.once(Operation::Record, Fault::SilenceAfter);
    let guard = client.acquire("job").await.expect("a free lock");
    let (recorded, ()) = tokio::join!(guard.record("x", SPAN), async {
        sleep(SECOND / 10).await;
        other.admin().evict("job").await.expect("an answer");
    });
    recorded.expect("the first request recorded it");
    assert!(matches!(guard.release().await, Err(LockError::Lost { .. })));
}

/// C42: by default a record is kept for a week.
#[tokio::test(start_paused = true)]
async fn c42_a_record_is_kept_for_a_week() {
    let locks = LockClient::new(MemoryBackend::new());
    let once = || locks.once("job").occurrence("x").run(async |_| ());
    once().await.expect("an answer").ran().expect("a free lock").hold.expect("recorded");
    sleep(7 * 24 * HOUR - SECOND).await;
    assert!(matches!(once().await.expect("an answer"), OnceOutcome::Done(_)));
    sleep(2 * SECOND).await;
    assert!(once().await.expect("an answer").ran().is_some(), "it is forgotten");
}

/// C42: a shared hold is not a run, and asking for its record does not affect it.
#[tokio::test(start_paused = true)]
async fn c42_a_hold_that_is_not_exclusive_is_not_recorded() {
    let locks = LockClient::new(MemoryBackend::new());
    for request in [LockRequest::new("job").shared(), LockRequest::new("seats").permits(1, 2)] {
        let guard = locks.acquire(request).await.expect("free");
        let refused = guard.record("Monday", SPAN).await;
        assert!(matches!(refused, Err(LockError::Unsupported { .. })), "{refused:?}");
        guard.release().await.expect("it goes on");
    }
}
