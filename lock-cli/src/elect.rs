//! `leasehold elect`: a command that runs while its host leads.

use std::convert::Infallible;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use leasehold::{Leadership, LockClient, LockError, LockName, MultiGuard};
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::sleep;

use crate::args;
use crate::exit::{Exit, Failure, chain};
use crate::hook::Hook;
use crate::margin::Ending;
use crate::outage::Outage;
use crate::readiness::Readiness;
use crate::run::{Signals, Terms, Unreleased, connect, hold, interrupted, shut_down};
use crate::terminal;
use crate::url::StoreUrl;
use crate::waiting::Waiting;

/// Pause before the next campaign. After a failed command others have their turn, and a command that fails at once
/// does not keep the machine busy.
const PAUSE: Duration = Duration::from_secs(1);

pub(crate) async fn run(args: &args::Elect, store: &StoreUrl<'_>) -> Result<Exit, Failure> {
    let name = LockName::new(&args.name).map_err(LockError::from)?;
    let ending = Ending::of_leader(&args.work)?;
    // First, before there is anything that a signal would leave behind.
    let mut signals = Signals::listen()?;
    if !args.quiet {
        store.warn_if_local();
        ending.warning(args.work.lease.ttl).inspect(|text| terminal::warning(text));
    }
    let (told, changes) = unbounded_channel();
    let readiness = Readiness::new(args.ready_file.as_deref(), told)?;
    let command = args.on_change.as_ref();
    let hook = Hook { command, name: &name, quiet: args.quiet, changes };
    let mut hook = pin!(hook.run());
    let ended = tokio::select! {
        ended = campaign(args, store, &name, ending, readiness, &mut signals) => ended,
        never = async { hook.as_mut().await; pending::<Infallible>().await } => match never {},
    };
    // The changes are over, and the command of the last ones may still run.
    tokio::select! {
        biased;
        () = hook => {}
        () = sleep(ending.grace) => {
            terminal::warning("the command of --on-change is killed: it ran longer than the grace");
        }
        _ = signals.interruption() => {}
    }
    ended
}

/// Connects, and then campaigns and leads to the end.
async fn campaign(
    args: &args::Elect,
    store: &StoreUrl<'_>,
    name: &LockName,
    ending: Ending,
    readiness: Readiness,
    signals: &mut Signals,
) -> Result<Exit, Failure> {
    let outage = Outage::new(args.quiet);
    let client = loop {
        // The lines of the outage show the wait for the server.
        match connect(store, Duration::ZERO, ending.options(), true, signals).await {
            Err(failure) if failure.is_transient() => outage.tell(failure.message()),
            connected => break connected?,
        }
        pause(name, signals).await?;
    };
    let (client, store) = (&client, &*store.shown());
    let candidate = Candidate { client, name, args, grace: ending.grace, store, readiness };
    let ended = candidate.lead_until_the_end(signals).await;
    shut_down(client).await;
    ended
}

/// Gives others a turn, or the server time to come back. Fails if a signal asks to end.
async fn pause(name: &LockName, signals: &mut Signals) -> Result<(), Failure> {
    tokio::select! {
        () = sleep(PAUSE) => Ok(()),
        signal = signals.interruption() => Err(interrupted(std::slice::from_ref(name), signal)),
    }
}

/// Reports why the command does not run, unless the user wants no warnings.
fn still_a_candidate(quiet: bool, why: &str) {
    if !quiet {
        terminal::warning(&format!("{why}; still a candidate"));
    }
}

struct Candidate<'a> {
    client: &'a LockClient,
    name: &'a LockName,
    args: &'a args::Elect,
    grace: Duration,
    store: &'a str,
    readiness: Readiness,
}

impl Candidate<'_> {
    /// Campaigns and leads until the command succeeds, or a signal comes.
    async fn lead_until_the_end(&self, signals: &mut Signals) -> Result<Exit, Failure> {
        loop {
            let elected = tokio::select! {
                elected = self.campaign() => elected,
                signal = signals.interruption() => return Err(interrupted(std::slice::from_ref(self.name), signal)),
            };
            if let Some(ended) = self.lead(elected?, signals).await {
                return ended;
            }
            pause(self.name, signals).await?;
        }
    }

    async fn campaign(&self) -> Result<Leadership, LockError> {
        let waiting = Waiting::for_turn(self.args.quiet);
        let (name, listener) = (self.name.clone(), waiting.listener());
        let outage = Arc::new(Outage::new(self.args.quiet));
        let ended = outage.clone();
        let lease = &self.args.work.lease;
        let election = self.client.election(self.name).ttl(lease.ttl).label(lease.label());
        let election = election.on_wait(move |seen| {
            ended.end();
            listener(&name, seen);
        });
        let election = election.on_outage(move |error| outage.tell(&chain(error)));
        tokio::select! {
            biased;
            elected = election.campaign() => elected,
            never = waiting.draw() => match never {},
        }
    }

    /// Runs the command for one term. Returns `None` if another campaign follows.
    async fn lead(
        &self,
        leadership: Leadership,
        signals: &mut Signals,
    ) -> Option<Result<Exit, Failure>> {
        let ready = match self.readiness.begin(leadership.term()) {
            Ok(ready) => ready,
            Err(failure) => return Some(Err(failure)),
        };
        // C40: a leader that is deposed is not ready, while its command still ends.
        let lost = leadership.lost_signal();
        let until_lost = async move {
            lost.wait().await;
            drop(ready);
            pending::<Infallible>().await
        };
        let guard = MultiGuard::from(leadership.into_guard());
        let terms = Terms {
            names: std::slice::from_ref(self.name),
            command: &self.args.work.command,
            grace: self.grace,
            store: self.store,
            occurrence: None,
        };
        let mut held = tokio::select! {
            never = until_lost => match never {},
            held = hold(guard, &terms, signals) => held,
        };
        held.unreleased.iter_mut().for_each(Unreleased::tell);
        let still_a_candidate = |why: &str| still_a_candidate(self.args.quiet, why);
        match held.ended {
            ended if held.asked_to_end => return Some(ended),
            // The loss was reported already.
            Ok(Exit::Lost) => {}
            Ok(Exit::Command(code @ (1..126 | 128..))) => {
                still_a_candidate(&format!("the command failed with {code}"));
            }
            Ok(Exit::Signal(number)) => {
                still_a_candidate(&format!("signal {number} ended the command"));
            }
            Err(failure) if failure.exit() == Exit::Lost => {
                let _ = failure.tell();
            }
            ended => return Some(ended),
        }
        None
    }
}
