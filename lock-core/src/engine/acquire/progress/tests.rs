use tokio::time::advance;

use super::*;
use crate::model::{Clock, LockRequest, SystemClock};

const TIMEOUT: Duration = Duration::from_secs(2);
const MS: Duration = Duration::from_millis(1);

/// An answer or silence of the server, and its duration.
#[derive(Clone, Copy, Debug)]
enum Step {
    Busy,
    Late,
    Refused,
    Silent,
    /// Busy, with holders that count another number of permits.
    Other,
}

fn claim() -> Claim {
    LockRequest::new("a").permits(1, 3).claim().expect("a good claim")
}

fn busy() -> Busy {
    let (asked, answered) = (SystemClock.now(), Instant::now());
    Busy { seen: Contention::unknown(), asked, answered }
}

fn busy_with(permits: u16) -> Busy {
    Busy { seen: Contention { permits, ..Contention::unknown() }, ..busy() }
}

async fn take(progress: &mut Progress, step: Step) {
    let of = progress.try_since(Instant::now());
    let took = if matches!(step, Step::Silent) { of.end - of.sent } else { MS };
    advance(took).await;
    match step {
        Step::Busy => progress.busy(&busy()),
        Step::Late => progress.granted_late(of),
        Step::Refused => progress.failed(of, BackendError::no_answer("test", took)),
        Step::Silent => progress.silent(of, "test"),
        Step::Other => progress.busy(&busy_with(5)),
    }
}

/// Repeats the last step until the wait is over. Returns the duration and the kind of the end; `None` if the wait is
/// not over within an hour.
async fn end_of(wait: Wait, steps: &[Step]) -> Option<(Duration, &'static str)> {
    let (mut progress, started) = (Progress::new(wait, TIMEOUT), Instant::now());
    let last = *steps.last().expect("a step");
    for step in steps.iter().copied().chain(std::iter::repeat(last)) {
        take(&mut progress, step).await;
        if progress.is_over() {
            break;
        }
        advance(progress.pause(Wakeup::Push).max(MS)).await;
        if progress.is_over_after_pause() {
            break;
        }
        if started.elapsed() > Duration::from_secs(3600) {
            return None;
        }
    }
    let outcome = match progress.into_error(&claim(), "test", None) {
        LockError::NotAcquired { .. } => "NotAcquired",
        LockError::Timeout { .. } => "Timeout",
        LockError::Backend { .. } => "Backend",
        LockError::Conflict { .. } => "Conflict",
        other => panic!("{other}"),
    };
    Some((started.elapsed(), outcome))
}

#[tokio::test(start_paused = true)]
async fn c28_waiters_do_not_all_look_at_the_same_expiry() {
    let pause_of = |position| {
        let mut progress = Progress::new(Wait::Forever, TIMEOUT);
        let mut seen = Contention::unknown();
        (seen.ttl_left, seen.position) = (Some(50 * MS), position);
        progress.busy(&Busy { seen, ..busy() });
        progress.pause(Wakeup::Push)
    };
    assert_eq!(pause_of(Some(0)), 51 * MS);
    assert_eq!(pause_of(None), 51 * MS);
    assert!(pause_of(Some(1)) >= pause_of(Some(0)) + 10 * MS);
    assert!(pause_of(Some(u64::MAX)) <= FALLBACK_POLL * 2, "the bound of a poll holds");
}

/// C29: a foreign client releases without a message. Only the first waiter asks often.
#[tokio::test(start_paused = true)]
async fn c29_the_first_waiter_behind_a_foreign_client_looks_often() {
    let pause_of = |is_foreign, position, foreign_without_ttl| {
        let mut progress = Progress::new(Wait::Forever, TIMEOUT);
        let mut seen = Contention { is_foreign, foreign_without_ttl, ..Contention::unknown() };
        seen.position = position;
        progress.busy(&Busy { seen, ..busy() });
        progress.pause(Wakeup::Push)
    };
    assert!((20 * MS..=100 * MS).contains(&pause_of(true, Some(0), false)));
    let seldom = FALLBACK_POLL / 2;
    assert!(pause_of(false, Some(0), false) > seldom, "the holder is one of ours");
    assert!(pause_of(true, Some(1), false) > seldom, "another waiter is before it");
    assert!(pause_of(true, None, false) > seldom, "it has no place");
    assert!(pause_of(true, Some(0), true) > seldom, "the key may stay for ever");
}

/// The rest of a TTL that was read before an outage says nothing of the next look.
#[tokio::test(start_paused = true)]
async fn c48_a_holder_whose_hold_ends_soon_hurries_no_try_in_an_outage() {
    let mut progress = Progress::new(Wait::Forever, TIMEOUT);
    let mut seen = Contention::unknown();
    seen.ttl_left = Some(Duration::ZERO);
    progress.busy(&Busy { seen, ..busy() });
    for _ in 0..8 {
        let refused =
            BackendError::transient("test", Outcome::NotApplied, "a fault", "of the test");
        progress.failed(progress.try_since(Instant::now()), refused);
    }
    assert!(progress.pause(Wakeup::Push) >= 100 * MS);
}

#[tokio::test(start_paused = true)]
async fn c48_how_each_wait_ends() {
    use Step::{Busy, Late, Other, Refused, Silent};
    let (short, long) = (Wait::AtMost(5 * MS), Wait::AtMost(5 * TIMEOUT));
    let table: [(Wait, &[Step], Option<&str>); 18] = [
        (Wait::Never, &[Busy], Some("NotAcquired")),
        (Wait::Never, &[Silent], Some("Backend")),
        (Wait::Never, &[Refused], Some("Backend")),
        (Wait::Never, &[Late], Some("Timeout")),
        (short, &[Busy], Some("Timeout")),
        (short, &[Silent], Some("Timeout")),
        (short, &[Refused], Some("Backend")),
        (long, &[Busy], Some("Timeout")),
        (long, &[Busy, Silent], Some("Backend")),
        (long, &[Refused, Busy], Some("Timeout")),
        (long, &[Late], Some("Timeout")),
        (Wait::Forever, &[Busy], None),
        (Wait::Forever, &[Late], Some("Backend")),
        (Wait::Forever, &[Late, Silent], Some("Backend")),
        (Wait::Forever, &[Refused, Busy], None),
        (Wait::Never, &[Other], Some("Conflict")),
        (long, &[Other], Some("Timeout")),
        (Wait::Forever, &[Other], None),
    ];
    for (wait, steps, expected) in table {
        let end = end_of(wait, steps).await;
        assert_eq!(end.map(|(_, outcome)| outcome), expected, "{wait:?} after {steps:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn c15_an_acquisition_that_may_have_been_granted_says_so() {
    let mut progress = Progress::new(Wait::Never, TIMEOUT);
    take(&mut progress, Step::Silent).await;
    let refused = BackendError::transient("test", Outcome::NotApplied, "not sent", "for a test");
    progress.failed(progress.try_since(Instant::now()), refused);
    let LockError::Backend { source, .. } = progress.into_error(&claim(), "test", None) else {
        panic!("there was no answer");
    };
    assert_eq!(source.outcome(), Outcome::Unknown, "{source}");
}

#[tokio::test(start_paused = true)]
async fn c15_a_refused_try_takes_back_no_place_and_no_late_grant() {
    let outcome_after = async |has_place: bool, steps: &[Step]| {
        let progress = Progress::new(Wait::AtMost(TIMEOUT * 9), TIMEOUT);
        let mut progress = progress.with_place(has_place);
        for step in steps {
            take(&mut progress, *step).await;
        }
        let error =
            || BackendError::transient("test", Outcome::NotApplied, "not sent", "for a test");
        let refused = progress.refused(&claim().name, error());
        progress.failed(progress.try_since(Instant::now()), error());
        [refused, progress.into_error(&claim(), "test", None)].map(|error| match error {
            LockError::Backend { source, .. } => source.outcome(),
            other => panic!("{other}"),
        })
    };
    use Step::{Busy, Late, Silent};
    for steps in [&[Busy][..], &[Late], &[Silent]] {
        assert_eq!(outcome_after(false, steps).await, [Outcome::Unknown; 2], "{steps:?}");
    }
    assert_eq!(outcome_after(false, &[]).await, [Outcome::NotApplied; 2]);
    assert_eq!(outcome_after(true, &[]).await, [Outcome::Unknown; 2]);
}

#[tokio::test(start_paused = true)]
async fn c48_an_endless_wait_bears_an_outage_of_five_request_timeouts() {
    use Step::{Late, Refused, Silent};
    let alternating = [Late, Silent].repeat(50);
    for trouble in [&[Refused][..], &[Silent], &[Late], &alternating] {
        let (borne, _) = end_of(Wait::Forever, trouble).await.expect("it ends");
        let bound = TIMEOUT * OUTAGE_BORNE;
        assert!(borne >= bound && borne < bound + TIMEOUT, "{trouble:?}: {borne:?}");
    }
}

/// A server that needs longer than a try for its answer gives it to a later try.
#[tokio::test(start_paused = true)]
async fn c48_tries_without_an_answer_last_longer_and_longer_within_a_wait() {
    let lengths = async |wait: Wait| {
        let mut progress = Progress::new(wait, TIMEOUT);
        let mut lengths = Vec::new();
        for step in [Step::Silent, Step::Silent, Step::Silent, Step::Refused, Step::Silent] {
            let of = progress.try_since(Instant::now());
            lengths.push(of.end - of.sent);
            take(&mut progress, step).await;
        }
        lengths
    };
    let half = TIMEOUT / 2;
    let long = Wait::AtMost(100 * TIMEOUT);
    assert_eq!(lengths(long).await, [half, 2 * half, 4 * half, 8 * half, half]);
    assert_eq!(lengths(Wait::Never).await[..2], [half, half], "the call has a bound");
}

#[tokio::test(start_paused = true)]
async fn c48_a_process_that_was_stopped_amid_a_try_begins_anew() {
    let mut progress = Progress::new(Wait::Forever, TIMEOUT);
    take(&mut progress, Step::Silent).await;
    let of = progress.try_since(Instant::now());
    advance(TIMEOUT * 20).await;
    progress.silent(of, "test");
    assert!(!progress.is_over() && !progress.is_over_after_pause());
}

#[tokio::test(start_paused = true)]
async fn c48_a_last_try_that_is_cut_short_hides_no_outage() {
    let wait = Wait::AtMost(TIMEOUT / 2 + 300 * MS);
    let (_, outcome) = end_of(wait, &[Step::Silent]).await.expect("it ends");
    assert_eq!(outcome, "Backend");
}

#[tokio::test(start_paused = true)]
async fn c17_a_bounded_wait_ends_in_time_whatever_happens() {
    for step in [Step::Busy, Step::Late, Step::Refused, Step::Silent, Step::Other] {
        for wait in [5 * MS, 300 * MS, 5 * TIMEOUT] {
            let (took, _) = end_of(Wait::AtMost(wait), &[step]).await.expect("it ends");
            assert!(took >= wait && took <= wait + 2 * MS, "{step:?}: {took:?} for {wait:?}");
        }
    }
}

/// A server may keep a hold for seconds beyond its end, such as that of a session.
#[tokio::test(start_paused = true)]
async fn c28_a_lock_whose_hold_is_over_is_asked_for_at_growing_pauses() {
    let (mut progress, began) = (Progress::new(Wait::Forever, TIMEOUT), Instant::now());
    let mut looks = 0;
    while began.elapsed() < Duration::from_secs(3) {
        let mut seen = Contention::unknown();
        seen.ttl_left = Some(Duration::ZERO);
        progress.busy(&Busy { seen, ..busy() });
        let pause = progress.pause(Wakeup::Push);
        assert!(pause <= FALLBACK_POLL, "C28: {pause:?}");
        advance(pause).await;
        looks += 1;
    }
    assert!((10..20).contains(&looks), "{looks} looks in 3 s");
    let mut seen = Contention::unknown();
    seen.ttl_left = Some(50 * MS);
    progress.busy(&Busy { seen, ..busy() });
    assert_eq!(progress.pause(Wakeup::Push), 51 * MS, "the next hold ends in time");
}
