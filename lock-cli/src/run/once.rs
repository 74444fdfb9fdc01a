//! `run --once` and `run --at-least`: one of several processes that start at about the same time runs the command.

use std::time::Duration;

use leasehold::{LockClient, LockError, LockGuard, LockName, MultiGuard, OnceOutcome};

use super::signals::Signals;
use crate::args;
use crate::exit::{Exit, Failure};
use crate::terminal;

/// Start of a run, or the reason why it does not start.
pub(super) enum Begun {
    Held(MultiGuard),
    /// There is no work to do.
    Done,
}

/// Returns true if these arguments ask for a run once.
pub(super) fn is_asked_for(args: &args::Run) -> bool {
    args.once.is_some() || args.at_least.is_some()
}

/// Refuses an exit code that would say of a busy lock what only a record shows (C42): that the occurrence is done.
pub(super) fn refuse_busy_exit(args: &args::Run) -> Result<(), Failure> {
    if args.once.is_none() || args.busy_exit != Some(0) {
        return Ok(());
    }
    let text = "--busy-exit 0 does not go with --once: 0 says that the occurrence is done, and a \
                busy lock only that another run has begun it; leave --busy-exit out, and try again \
                after exit code 75";
    Err(Failure::new(Exit::Usage, text))
}

/// Begins a run, unless another has the lock, or the occurrence is done.
pub(super) async fn begin(
    client: &LockClient,
    name: &LockName,
    args: &args::Run,
) -> Result<Begun, LockError> {
    let lease = &args.work.lease;
    let once = client.once(name.as_str()).ttl(lease.ttl).label(lease.label());
    let mut once = once.remember(args.remember);
    if let Some(span) = args.at_least {
        once = once.at_least(span);
    }
    if let Some(span) = args.at_most {
        once = once.at_most(span);
    }
    if let Some(occurrence) = &args.once {
        once = once.occurrence(occurrence);
    }
    match once.begin().await? {
        OnceOutcome::Ran(guard) => Ok(Begun::Held(guard.into())),
        OnceOutcome::Skipped(contention) => {
            Err(LockError::NotAcquired { name: name.clone(), contention })
        }
        OnceOutcome::Done(token) => {
            if !args.quiet {
                let occurrence = args.once.as_deref().unwrap_or_default();
                terminal::warning(&format!(
                    "\"{occurrence}\" of lock \"{name}\" is done: it ran under token {token}"
                ));
            }
            Ok(Begun::Done)
        }
    }
}

/// Records a successful run (C42). The release that follows reports a loss.
///
/// An unreachable server is asked again while the lock is held, unless a signal asks to end.
pub(super) async fn record(
    guard: &LockGuard,
    key: &str,
    remember: Duration,
    signals: &mut Signals,
) -> Result<(), Failure> {
    let recorded = tokio::select! {
        recorded = guard.record(key, remember) => recorded,
        () = signals.end() => {
            let name = guard.name();
            let why = "a signal came before the server had answered";
            return Err(unrecorded(format!("\"{key}\" of lock \"{name}\" may not be recorded: {why}")));
        }
    };
    match recorded {
        Err(error @ LockError::Unrecorded { .. }) => Err(error.into()),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Returns the failure of a command that was told to stop. It may have left its work undone, so its run is not
/// recorded, though it exited with 0.
pub(super) fn told_to_stop(names: &[LockName], key: &str) -> Failure {
    let name = names.first().map(ToString::to_string).unwrap_or_default();
    let why = "the command was told to stop by a signal";
    unrecorded(format!("\"{key}\" of lock \"{name}\" is not recorded: {why}"))
}

fn unrecorded(text: String) -> Failure {
    Failure::new(Exit::Unrecorded, text)
}
