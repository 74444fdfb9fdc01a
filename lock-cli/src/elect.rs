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
                tell(args.quiet, &format!("{}; still a candidate", failure.message()));
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

fn tell(quiet: bool, message: &str) {
    if !quiet {
        terminal::warning(message);
    }
}

struct Candidate<'a> {
    client: &'a LockClient,
    name: &'a LockName,
    args: &'a args::Elect,
    store: &'a str,
}

/// Step after a term.
enum Next {
    /// Another campaign.
    Campaign,
    End(Result<Exit, Failure>),
}

impl Candidate<'_> {
    /// Campaigns and leads until the command succeeds, or a signal comes.
    async fn lead_until_the_end(&self, signals: &mut Signals) -> Result<Exit, Failure> {
        loop {
            let elected = tokio::select! {
                elected = self.campaign() => elected,
                signal = signals.interruption() => return Err(interrupted(std::slice::from_ref(self.name), signal)),
            };
            let next = match elected {
                Ok(leadership) => self.lead(leadership, signals).await,
                Err(error) => return Err(error.into()),
            };
            if let Next::End(ended) = next {
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
        let election = election
            .on_outage(move |error| tell(quiet, &format!("{}; still a candidate", chain(error))));
        tokio::select! {
            biased;
            elected = election.campaign() => elected,
            never = waiting.draw() => match never {},
        }
    }

    /// Runs the command for one term.
    async fn lead(&self, leadership: Leadership, signals: &mut Signals) -> Next {
        let guard = MultiGuard::from(leadership.into_guard());
        let terms = Terms {
            names: std::slice::from_ref(self.name),
            work: &self.args.work,
            store: self.store,
            occurrence: None,
        };
        let mut held = hold(guard, &terms, signals).await;
        held.unreleased.iter_mut().for_each(Unreleased::tell);
        match held.ended {
            ended if held.asked_to_end => Next::End(ended),
            // The loss was reported already.
            Ok(Exit::Lost) => Next::Campaign,
            Ok(Exit::Command(code @ (1..126 | 128..))) => {
                self.tell(&format!("the command failed with {code}; still a candidate"));
                Next::Campaign
            }
            Ok(Exit::Signal(number)) => {
                self.tell(&format!("signal {number} ended the command; still a candidate"));
                Next::Campaign
            }
            Err(failure) if failure.exit() == Exit::Lost => {
                let _ = failure.tell();
                Next::Campaign
            }
            ended => Next::End(ended),
        }
    }

    fn tell(&self, message: &str) {
        tell(self.args.quiet, message);
    }
}
