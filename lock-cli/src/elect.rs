//! `leasehold elect`: a command that runs while its host leads.

use std::time::Duration;

use leasehold::{Leadership, LockClient, LockError, LockName, MultiGuard};
use tokio::time::sleep;

use crate::args;
use crate::exit::{Exit, Failure, chain};
use crate::run::{Signals, Terms, Unreleased, connect, hold, interrupted, shut_down};
use crate::terminal;
use crate::url::StoreUrl;
use crate::waiting::Waiting;

/// Pause before the next campaign. After a failed command others have their turn, and a command that fails at once
/// does not keep the machine busy.
const PAUSE: Duration = Duration::from_secs(1);

pub(crate) async fn run(args: &args::Elect, store: &StoreUrl<'_>) -> Result<Exit, Failure> {
    let name = LockName::new(&args.name).map_err(LockError::from)?;
    // First, before there is anything that a signal would leave behind.
    let mut signals = Signals::listen()?;
    let client = loop {
        match connect(store, Duration::ZERO, &mut signals).await {
            Err(failure) if failure.is_transient() => {
                still_a_candidate(args.quiet, failure.message());
            }
            connected => break connected?,
        }
        pause(&name, &mut signals).await?;
    };
    let candidate = Candidate { client: &client, name: &name, args, store: &store.shown() };
    let ended = candidate.lead_until_the_end(&mut signals).await;
    shut_down(&client).await;
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
    store: &'a str,
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
        let waiting = Waiting::new(self.args.quiet);
        let (name, listener) = (self.name.clone(), waiting.listener());
        let lease = &self.args.work.lease;
        let election = self.client.election(self.name).ttl(lease.ttl).label(lease.label());
        let election = election.on_wait(move |seen| listener(&name, seen));
        let quiet = self.args.quiet;
        let election = election.on_outage(move |error| still_a_candidate(quiet, &chain(error)));
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
        let guard = MultiGuard::from(leadership.into_guard());
        let terms = Terms {
            names: std::slice::from_ref(self.name),
            work: &self.args.work,
            store: self.store,
            occurrence: None,
        };
        let mut held = hold(guard, &terms, signals).await;
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
