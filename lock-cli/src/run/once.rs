//! `run --once` and `run --at-least`: one of several processes that start at about the same time runs the command.

use std::time::Duration;

use leasehold::{LockClient, LockError, LockGuard, LockName, MultiGuard, OnceOutcome, Wait};

use super::signals::Signals;
use crate::args;
use crate::exit::{Exit, Failure};
use crate::request::wait;
use crate::terminal;
use crate::waiting::Waiting;

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

/// Refuses options that contradict each other: an exit code that would say of a busy lock what only a record shows
/// (C42), that the occurrence is done; and a wait that would only run the command twice (C41).
pub(super) fn refuse_contradictions(args: &args::Run) -> Result<(), Failure> {
    let text = if args.once.is_some() && args.busy_exit == Some(0) {
        "--busy-exit 0 does not go with --once: 0 says that the occurrence is done, and a \
         busy lock only that another run has begun it; leave --busy-exit out, and try again \
         after exit code 75"
    } else if args.once.is_none() && args.at_least.is_some() && args.request.wait.is_some() {
        "--at-least with --wait would run the command again after the wait: give --once KEY too, \
         or leave --wait out"
    } else {
        return Ok(());
    };
    Err(Failure::new(Exit::Usage, text))
}

/// Returns the wait for the present run (C41): none without `--wait`.
pub(super) fn wait_of(args: &args::Run) -> Wait {
    if is_asked_for(args) && args.request.wait.is_none() {
        Wait::Never
    } else {
        wait(&args.request)
    }
}

/// Begins a run, unless another has the lock, or the occurrence is done.
pub(super) async fn begin(
    client: &LockClient,
    name: &LockName,
    wait: Wait,
    args: &args::Run,
) -> Result<Begun, LockError> {
    let (lease, waiting) = (&args.work.lease, Waiting::for_turn(args.quiet));
    let (listener, waited_for) = (waiting.listener(), name.clone());
    let once = client.once(name.as_str()).ttl(lease.ttl).label(lease.label()).wait(wait);
    let once = once.on_wait(move |seen| listener(&waited_for, seen));
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
    let outcome = tokio::select! {
        biased;
        outcome = once.begin() => outcome?,
        never = waiting.draw() => match never {},
    };
    match outcome {
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
