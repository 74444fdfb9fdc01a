//! `leasehold run`: a command under a lock.

mod giving_back;
mod grace;
mod group;
mod once;
mod orphans;
mod signals;
pub(crate) mod trampoline;

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use leasehold::{
    ClientOptions, LockClient, LockError, LockGuard, LockName, LostReason, MultiGuard, Wait,
};
use rustix::process::{Signal, getpid, kill_process};
use tokio::time::timeout;

pub(crate) use self::giving_back::{Unreleased, all as give_back};
use self::grace::Grace;
use self::group::Group;
use self::once::Begun;
pub(crate) use self::orphans::leave_to_its_waiter;
pub(crate) use self::signals::Signals;
use self::signals::{Stops, is_ending};

use crate::args;
use crate::exit::{Exit, Failure};
use crate::margin::Ending;
use crate::request::{acquire, names, patience, request};
use crate::url::StoreUrl;
use crate::waiting::Waiting;

/// Time for giving back our holds on the server. After that the TTL ends them.
pub(crate) const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);

pub(crate) async fn run(args: &args::Run, store: &StoreUrl<'_>) -> Result<Exit, Failure> {
    let names = names(&args.names)?;
    if names.len() > 1 && once::is_asked_for(args) {
        let text = "--once and --at-least need exactly one lock";
        return Err(Failure::new(Exit::Usage, text));
    }
    once::refuse_contradictions(args)?;
    let ending = Ending::of_run(&args.work)?;
    // First, before there is anything that a signal would leave behind.
    let mut signals = Signals::listen()?;
    if once::is_asked_for(args) && !args.quiet {
        store.warn_if_local();
    }
    let wait = once::wait_of(args);
    let client = connect(store, patience(wait), ending.options(), args.quiet, &mut signals).await?;
    let acquired = tokio::select! {
        acquired = begin(&client, &names, wait, args) => acquired.map_err(not_acquired),
        signal = signals.interruption() => Err(interrupted(&names, signal)),
    };
    let WorkOutcome { ended, mut unreleased, .. } = match acquired {
        Ok(Begun::Held(guard)) => {
            let terms = Terms {
                names: &names,
                command: &args.work.command,
                grace: ending.grace,
                store: &store.shown(),
                occurrence: args.once.as_deref().map(|key| (key, args.remember)),
            };
            hold(guard, &terms, &mut signals).await
        }
        Ok(Begun::Done) => WorkOutcome::of(Ok(Exit::Done)),
        Err(failure) => WorkOutcome::of(Err(failure)),
    };
    // After a loss too: the server may keep the hold for longer than we believed in it.
    if shut_down(&client).await {
        // The server answered in the end.
        unreleased.retain(Unreleased::is_refused);
    }
    unreleased.iter_mut().for_each(Unreleased::tell);
    match ended {
        Err(failure) if failure.exit() == Exit::NotAcquired => {
            let exit = if args.quiet { failure.exit() } else { failure.tell() };
            Ok(args.busy_exit.map_or(exit, Exit::Command))
        }
        Ok(Exit::Command(0)) if args.strict && !unreleased.is_empty() => Ok(Exit::Unreleased),
        ended => ended,
    }
}

/// Returns a client, unless a signal comes first, which needs no message. The wait for the server is shown, unless the
/// command must be quiet.
pub(crate) async fn connect(
    store: &StoreUrl<'_>,
    patience: Duration,
    options: ClientOptions,
    quiet: bool,
    signals: &mut Signals,
) -> Result<LockClient, Failure> {
    let waiting = Waiting::for_server(quiet, store.shown());
    tokio::select! {
        never = waiting.draw() => match never {},
        client = store.connect_within(patience, options) => client,
        signal = signals.interruption() => Err(Failure::new(Exit::Signal(signal.as_raw()), "")),
    }
}

/// Waits until everything is given back; returns true if nothing is in flight any more.
pub(crate) async fn shut_down(client: &LockClient) -> bool {
    timeout(SHUTDOWN_GRACE, client.shutdown()).await.is_ok()
}

async fn begin(
    client: &LockClient,
    names: &[LockName],
    wait: Wait,
    args: &args::Run,
) -> Result<Begun, LockError> {
    if let ([name], true) = (names, once::is_asked_for(args)) {
        return once::begin(client, name, wait, args).await;
    }
    let mut request = request(names, wait, &args.request, &args.work.lease);
    if let Some(span) = args.at_most {
        request = request.max_hold(span);
    }
    acquire(client, request, args.quiet).await.map(Begun::Held)
}

/// The terms under which a command runs.
pub(crate) struct Terms<'a> {
    pub(crate) names: &'a [LockName],
    /// The command and its arguments.
    pub(crate) command: &'a [OsString],
    /// The time between a request to end and SIGKILL.
    pub(crate) grace: Duration,
    /// Names the store for people.
    pub(crate) store: &'a str,
    /// The occurrence to record for a successful run, and the time to keep it (C42).
    pub(crate) occurrence: Option<(&'a str, Duration)>,
}

/// Outcome of the work under locks.
pub(crate) struct WorkOutcome {
    pub(crate) ended: Result<Exit, Failure>,
    /// True if a signal that asks to end was passed on to the command.
    pub(crate) asked_to_end: bool,
    /// The locks that could not be given back.
    pub(crate) unreleased: Vec<Unreleased>,
}

impl WorkOutcome {
    fn of(ended: Result<Exit, Failure>) -> Self {
        Self { ended, asked_to_end: false, unreleased: Vec::new() }
    }
}

/// Runs the command, and releases the locks when it has ended.
pub(crate) async fn hold(
    guard: MultiGuard,
    terms: &Terms<'_>,
    signals: &mut Signals,
) -> WorkOutcome {
    match Held::start(guard, terms, signals) {
        Ok(held) => held.run(terms).await,
        Err(failure) => WorkOutcome::of(Err(failure)),
    }
}

/// A command that runs under a lock.
struct Held<'a> {
    guard: MultiGuard,
    group: Group,
    stops: Stops,
    signals: &'a mut Signals,
    grace: Grace,
    asked_to_end: bool,
    is_killed: bool,
}

impl<'a> Held<'a> {
    fn start(
        guard: MultiGuard,
        terms: &Terms<'_>,
        signals: &'a mut Signals,
    ) -> Result<Self, Failure> {
        // First: a stop of this process alone would leave the command running, while nobody renews its lock.
        let stops = Stops::listen()?;
        let group = Group::start(terms.command, terms.names, &guard)?;
        signals.leave_to_its_waiter(group.command());
        let grace = Grace::new(terms.grace);
        Ok(Self { guard, group, stops, signals, grace, asked_to_end: false, is_killed: false })
    }

    async fn run(mut self, terms: &Terms<'_>) -> WorkOutcome {
        let ended = match self.until_end().await {
            Ok(Some(status)) => return self.finish(exit_of(status), terms).await,
            Ok(None) => Ok(Exit::Lost),
            Err(failure) => Err(failure),
        };
        WorkOutcome { asked_to_end: self.asked_to_end, ..WorkOutcome::of(ended) }
    }

    /// Records a successful run, and releases the locks, all at once. A loss that is found only now is reported,
    /// unless it came during the recording.
    async fn finish(mut self, exit: Exit, terms: &Terms<'_>) -> WorkOutcome {
        self.asked_to_end |= self.signals.has_asked_to_end().await;
        let guards = self.guard.into_guards();
        let run = terms.occurrence.filter(|_| exit == Exit::Command(0));
        let recorded = match (run, &*guards) {
            (Some((key, _)), _) if self.asked_to_end => Err(once::told_to_stop(terms.names, key)),
            (Some((key, remember)), [guard]) => {
                once::record(guard, key, remember, self.signals).await
            }
            _ => Ok(()),
        };
        let (released, unreleased) = giving_back::all(guards, terms.store).await;
        let ended = recorded.and(released).map(|()| exit);
        WorkOutcome { ended, asked_to_end: self.asked_to_end, unreleased }
    }

    /// Waits until the command has ended. Returns its status, or `None` if the lock is lost.
    async fn until_end(&mut self) -> Result<Option<ExitStatus>, Failure> {
        loop {
            tokio::select! {
                biased;
                loss = self.guard.lost() => {
                    self.lost(loss);
                    self.rest_ends(true).await;
                    return self.group.ended().await.map(|_| None);
                }
                status = self.group.ended() => {
                    let status = status?;
                    // Other processes of the group received the signal too, and may be cleaning up.
                    let interrupted = self.asked_to_end || status.signal().is_some();
                    let lost = interrupted && self.rest_ends(false).await;
                    return Ok((!lost).then_some(status));
                }
                () = self.grace.over(), if !self.is_killed => self.kill().await,
                signal = self.signals.next() => self.pass_on(signal).await,
                () = self.stops.next() => self.stop(),
            }
        }
    }

    /// Waits until no process of the group is left, or until the group is killed at the end of the grace. Returns true
    /// if the lock is lost by then.
    async fn rest_ends(&mut self, mut lost: bool) -> bool {
        self.grace.begin();
        while !self.is_killed {
            tokio::select! {
                biased;
                () = self.group.gone() => break,
                () = self.grace.over() => self.kill().await,
                loss = self.guard.lost(), if !lost => {
                    self.lost(loss);
                    lost = true;
                }
                signal = self.signals.next() => self.pass_on(signal).await,
            }
        }
        lost
    }

    /// Passes a signal on to the group. The signal may end the grace.
    async fn pass_on(&mut self, signal: Signal) {
        self.asked_to_end |= is_ending(signal);
        if self.grace.is_ended_by(signal) {
            return self.kill().await;
        }
        self.group.pass_on(signal);
    }

    async fn kill(&mut self) {
        self.is_killed = true;
        self.group.kill().await;
    }

    /// Asks the command to end, and reports the loss at once, since the command may take its time.
    fn lost(&mut self, (name, reason): (LockName, LostReason)) {
        self.group.ask_to_end();
        let how = told_of_loss(&self.guard, &name, reason);
        let _ = Failure::lost(&name, &how).tell();
    }

    /// Stops the command and this process, until this process continues. A command that continues has the lock.
    fn stop(&mut self) {
        self.group.send(Signal::STOP);
        let _ = kill_process(getpid(), Signal::STOP);
        if self.guard.is_held() {
            self.group.send(Signal::CONT);
        }
    }
}

/// Returns the reason of a loss, with the error of the last renewal if that led to it.
pub(crate) fn told_of_loss(guard: &MultiGuard, name: &LockName, reason: LostReason) -> String {
    let guard = guard.guards().iter().find(|guard| guard.name() == name);
    let error = guard.and_then(LockGuard::renewal_error);
    match error.filter(|_| reason == LostReason::Expired) {
        Some(error) => format!("{reason}: {error}"),
        None => reason.to_string(),
    }
}

/// Turns a loss before all locks were acquired into another failure: the command did not run.
pub(crate) fn not_acquired(error: LockError) -> Failure {
    match error {
        LockError::Lost { .. } => Failure::new(Exit::NotAcquired, error.to_string()),
        error => error.into(),
    }
}

pub(crate) fn interrupted(names: &[LockName], signal: Signal) -> Failure {
    let quoted: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    let locks = if names.len() == 1 { "lock" } else { "locks" };
    let text = format!("interrupted while waiting for {locks} {}", quoted.join(", "));
    Failure::new(Exit::Signal(signal.as_raw()), text)
}

fn exit_of(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Command(code.try_into().unwrap_or(u8::MAX)),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Command(u8::MAX),
    }
}
