//! Requests of `run` and `hold`, which have the same options.

use std::time::{Duration, Instant};

use leasehold::core::backend::UNTAKEN_LASTS;
use leasehold::{ClientOptions, LockClient, LockError, LockName, MultiGuard, MultiRequest, Wait};

use tokio::time::sleep;

use crate::args::{Lease, Request};
use crate::waiting::Waiting;

/// Returns the locks, in the order of the command line.
pub(crate) fn names(typed: &[String]) -> Result<Vec<LockName>, LockError> {
    typed.iter().map(|name| LockName::new(name).map_err(LockError::from)).collect()
}

/// Returns the wait for the server and for the locks, from now on.
pub(crate) fn wait(asked: &Request) -> Wait {
    match (asked.no_wait, asked.wait) {
        (true, _) => Wait::Never,
        (false, Some(span)) => Instant::now().checked_add(span).map_or(Wait::Forever, Wait::Until),
        (false, None) => Wait::Forever,
    }
}

/// Returns the time for attempts to connect to an unreachable server. A wait for ever lasts five request time-outs
/// without an answer.
pub(crate) fn patience(wait: Wait) -> Duration {
    match wait {
        Wait::Never => Duration::ZERO,
        Wait::AtMost(span) => span,
        Wait::Until(deadline) => deadline.saturating_duration_since(Instant::now()),
        _ => 5 * ClientOptions::REQUEST_TIMEOUT,
    }
}

/// Returns the request for these locks, of the kind that the options name (C33).
pub(crate) fn request(
    names: &[LockName],
    wait: Wait,
    asked: &Request,
    lease: &Lease,
) -> MultiRequest {
    let request = MultiRequest::new(names).ttl(lease.ttl).wait(wait).label(lease.label());
    match (asked.shared, asked.limit) {
        (true, _) => request.shared(),
        (false, Some(n)) => request.permits(asked.take.unwrap_or(1), n),
        (false, None) => request,
    }
}

/// Acquires all locks of the request or none. A terminal shows the wait, unless the command must be quiet. A request
/// that does not wait asks once more if a lock waits for a client that may have died (C28).
pub(crate) async fn acquire(
    client: &LockClient,
    request: MultiRequest,
    quiet: bool,
) -> Result<MultiGuard, LockError> {
    let waiting = Waiting::for_turn(quiet);
    let request = request.on_wait(waiting.listener());
    let acquired = async {
        match client.acquire_all(request.clone()).await {
            Err(LockError::NotAcquired { contention, .. }) if contention.is_untaken => {
                sleep(UNTAKEN_LASTS).await;
                client.acquire_all(request).await
            }
            acquired => acquired,
        }
    };
    tokio::select! {
        biased;
        acquired = acquired => acquired,
        never = waiting.draw() => match never {},
    }
}
