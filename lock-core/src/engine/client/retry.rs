//! Retries of a request to a server that does not answer: their number and pauses.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use crate::model::{BackendError, Outcome, random};

/// Pause after the first failed try; it doubles after each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// Longest pause between tries: a server that is back is found within it.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Longest time of one try, unless the request time-out allows a longer one.
pub(super) const LONGEST_TRY: Duration = Duration::from_secs(1);

/// Returns the pause before try `tries + 1`: exponential, with full jitter over its upper half, so that clients that
/// failed together do not return together.
pub(crate) fn pause_after(tries: u32) -> Duration {
    jittered(FIRST_PAUSE.saturating_mul(1 << tries.min(10)).min(LONGEST_PAUSE))
}

/// Returns a random span between one half and the whole of `span`.
pub(crate) fn jittered(span: Duration) -> Duration {
    span.mul_f64(random::within(0.5..1.0))
}

/// Asks the server until it answers or refuses, or `limit` is over.
///
/// One try may take half of the limit, and `longest_try` at most, so that a second try has time after a connection
/// swallowed the first. Requests may be repeated, since each is idempotent per owner. `ask` receives true if an earlier
/// try may have been carried out.
pub(crate) async fn within<T, F>(
    limit: Duration,
    longest_try: Duration,
    backend: &'static str,
    mut ask: impl FnMut(bool) -> F,
) -> Result<T, BackendError>
where
    F: Future<Output = Result<T, BackendError>>,
{
    let mut began = Instant::now();
    let end = began + limit;
    let one_try = longest_try.min(limit / 2);
    let (mut tries, mut earlier) = (0, None::<BackendError>);
    loop {
        // C16: a repeat does no harm, since requests are idempotent per owner.
        let end_of_try = end.min(began + one_try);
        let is_unknown = earlier.as_ref().is_some_and(|error| error.outcome() == Outcome::Unknown);
        let error = match (timeout_at(end_of_try, ask(is_unknown)).await, earlier) {
            (Ok(Err(error)), earlier) if error.is_transient() => error.told_after(earlier),
            // C15: an earlier try may have been carried out.
            (Ok(Err(error)), _) if is_unknown => return Err(error.of_unknown_outcome()),
            (Ok(answer), _) => return answer,
            // C48: an error of an earlier try says more than a try that our own end cut short.
            (Err(_), Some(earlier)) if end_of_try == end => earlier.of_unknown_outcome(),
            (Err(_), _) => BackendError::no_answer(backend, began.elapsed()),
        };
        let pause = pause_after(tries);
        if Instant::now() + pause >= end {
            return Err(error);
        }
        sleep(pause).await;
        (tries, earlier, began) = (tries + 1, Some(error), Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(outcome: Outcome) -> BackendError {
        BackendError::transient("test", outcome, "it failed", "for a test")
    }

    #[tokio::test(start_paused = true)]
    async fn c15_a_later_try_hides_no_unknown_outcome() {
        for (first, others, told) in [
            (Outcome::Unknown, Outcome::NotApplied, Outcome::Unknown),
            (Outcome::NotApplied, Outcome::Unknown, Outcome::Unknown),
            (Outcome::NotApplied, Outcome::NotApplied, Outcome::NotApplied),
        ] {
            let mut outcomes = std::iter::once(first).chain(std::iter::repeat(others));
            let ask =
                |_| std::future::ready(Err::<(), _>(error(outcomes.next().expect("endless"))));
            let failed = within(Duration::from_secs(1), LONGEST_TRY, "test", ask).await;
            assert_eq!(failed.expect_err("it fails").outcome(), told, "{first:?}, {others:?} …");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn c15_a_refusal_of_a_later_try_hides_no_unknown_outcome() {
        for first in [Outcome::Unknown, Outcome::NotApplied] {
            let mut answers =
                [error(first), BackendError::refusal("test", "no rights")].into_iter();
            let ask = |_| std::future::ready(Err::<(), _>(answers.next().expect("two tries")));
            let refused = within(Duration::from_secs(1), LONGEST_TRY, "test", ask)
                .await
                .expect_err("it fails");
            assert_eq!((refused.outcome(), refused.is_transient()), (first, false), "{refused}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn c48_a_last_try_that_is_cut_short_hides_no_error() {
        let began = Instant::now();
        let refused_and_then_silent = |_| async move {
            if began.elapsed() > Duration::from_secs(9) {
                std::future::pending::<()>().await;
            }
            Err::<(), _>(error(Outcome::NotApplied))
        };
        let failed =
            within(Duration::from_secs(10), LONGEST_TRY, "test", refused_and_then_silent).await;
        let failed = failed.expect_err("it fails");
        assert!(failed.to_string().contains("it failed"), "{failed}");
        assert_eq!(failed.outcome(), Outcome::Unknown);
    }
}
