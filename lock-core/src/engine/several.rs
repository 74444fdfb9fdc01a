//! C39: several locks by one request.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::acquisition::Acquisition;
use super::claim_state::ClaimEvent;
use super::containment::contained;
use super::shared::Acquired;
use crate::backend::Grant;
use crate::model::{BackendError, Claim, LockError, Outcome, Wait};

/// Acquires the free locks at the front in one request, and removes them from `waiting`. It acquires none if the
/// backend cannot do this, if only one lock is left, or if the first is not free.
///
/// The rest is acquired one by one. A claim without an answer is then repeated by the same owner, which finds its own
/// grant (C16).
pub(crate) async fn acquire_free(
    waiting: &mut VecDeque<Acquisition>,
    wait: Wait,
) -> Result<Vec<Acquired>, LockError> {
    let Some(front) = waiting.front() else { return Ok(Vec::new()) };
    let shared = front.shared.clone();
    let wait = shared.driven(front.name(), wait).await?;
    // C26: earlier tasks of this client are not overtaken.
    let is_next = |each: &&Acquisition| !shared.local_queue.has_line(&each.place.claim.name);
    let claims: Vec<Claim> =
        waiting.iter().take_while(is_next).map(|each| each.place.claim.clone()).collect();
    let Some(several) = shared.backend.several().filter(|_| claims.len() > 1) else {
        return Ok(Vec::new());
    };
    let (asked, sent) = (shared.options.clock.now(), Instant::now());
    note(waiting, claims.len(), ClaimEvent::Asked);
    let limit = bounded(shared.options.request_timeout / 2, wait);
    let answer =
        timeout(limit, contained(shared.name(), several.acquire_while_free(&claims))).await;
    let grants = answer.unwrap_or_else(|_| Err(BackendError::no_answer(shared.name(), limit)));
    let grants: Vec<Grant> = match grants {
        Ok(grants) => grants,
        Err(error) => {
            note(waiting, claims.len(), without_grants(&error));
            return Ok(Vec::new());
        }
    };
    let (granted, check) = (grants.len().min(claims.len()), shared.waiting());
    let refused = waiting.iter_mut().take(claims.len()).skip(granted);
    refused.for_each(|each| each.place.owned.state().note(ClaimEvent::Refused));
    let mut acquired = Vec::with_capacity(granted);
    for (grant, claim) in grants.iter().zip(&claims) {
        let Some(front) = waiting.front_mut() else { break };
        let Some(lease) = check.lease(claim, grant, asked, *front.place.owned.state()) else {
            // C5: the grant came too late. The server has it, and the grants after it.
            note(waiting, granted - acquired.len(), ClaimEvent::Unanswered);
            break;
        };
        front.place.owned.state().note(ClaimEvent::Granted);
        let report = shared.telemetry.acquiring_since(&claim.name, sent);
        let hold = front.held(lease)?;
        report.ended(Ok(hold.token()));
        acquired.extend(waiting.pop_front().map(|front| front.acquired((hold, None))));
    }
    Ok(acquired)
}

/// Notes `event` for the first `first` claims.
fn note(waiting: &mut VecDeque<Acquisition>, first: usize, event: ClaimEvent) {
    waiting.iter_mut().take(first).for_each(|each| each.place.owned.state().note(event));
}

/// Returns the meaning of an error for each claim: it was not granted, or may have been.
fn without_grants(error: &BackendError) -> ClaimEvent {
    match error.outcome() {
        Outcome::NotApplied => ClaimEvent::Refused,
        _ => ClaimEvent::Unanswered,
    }
}

/// Returns the time for one request, at most the remaining wait.
fn bounded(limit: Duration, wait: Wait) -> Duration {
    match wait {
        Wait::AtMost(left) if !left.is_zero() => limit.min(left),
        _ => limit,
    }
}
