//! The end of a command whose lock is lost: its grace, and the margin before others get in.

use std::time::Duration;

use leasehold::{ClientOptions, Drift};

use crate::args::Work;
use crate::exit::{Exit, Failure};

/// Default grace.
const GRACE: Duration = Duration::from_secs(5);

/// The grace of a command, and the margin that its holder takes off each TTL.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ending {
    pub(crate) grace: Duration,
    margin: Duration,
}

impl Ending {
    /// Returns the ending of a command of `run`, which has no margin by default.
    pub(crate) fn of_run(work: &Work) -> Result<Self, Failure> {
        let margin = asked_for(work)?.unwrap_or_default();
        Ok(Self { grace: work.grace.unwrap_or(GRACE), margin })
    }

    /// Returns the ending of a leader's command. The default margin is the longer of the grace and a third of the
    /// TTL, if the grace leaves enough of the TTL, so that one leader has ended before the next begins.
    pub(crate) fn of_leader(work: &Work) -> Result<Self, Failure> {
        let third = work.lease.ttl / 3;
        let grace = work.grace.unwrap_or(GRACE.min(third));
        let fitting = Some(grace).filter(|grace| *grace <= longest(work.lease.ttl));
        let margin = asked_for(work)?.unwrap_or(third.max(fitting.unwrap_or_default()));
        Ok(Self { grace, margin })
    }

    /// Returns the options of a client whose holds end by the margin before their TTL.
    pub(crate) fn options(self) -> ClientOptions {
        let Drift { rate, constant, .. } = Drift::default();
        ClientOptions::new().drift(Drift::new(rate, constant + self.margin))
    }

    /// Returns a warning if the command of one leader may still run under the next one.
    pub(crate) fn warning(self, ttl: Duration) -> Option<String> {
        let over = self.grace.checked_sub(self.margin).filter(|over| !over.is_zero())?;
        let [grace, margin, over] = [self.grace, self.margin, over].map(humantime::format_duration);
        let remedy = match self.grace.checked_mul(3) {
            Some(fitting) if fitting > ttl => {
                format!(
                    "choose a --ttl of {} or more, or a shorter --grace",
                    humantime::format_duration(fitting)
                )
            }
            _ => "choose a longer --margin, or a shorter --grace".to_owned(),
        };
        Some(format!(
            "after a loss the command may run for {over} beside that of the next leader: \
             its grace is {grace}, and the margin is {margin}; {remedy}"
        ))
    }
}

/// Returns the margin of the command line. A margin must leave time for a renewal and for its repetition.
fn asked_for(work: &Work) -> Result<Option<Duration>, Failure> {
    let (ttl, longest) = (work.lease.ttl, longest(work.lease.ttl));
    match work.margin {
        Some(margin) if margin > longest => {
            let [margin, ttl, longest] = [margin, ttl, longest].map(humantime::format_duration);
            let text = format!(
                "a margin of {margin} leaves too little of a TTL of {ttl} to renew the lock in: \
                 choose {longest} at most, or a longer --ttl"
            );
            Err(Failure::new(Exit::Usage, text))
        }
        margin => Ok(margin),
    }
}

/// Returns the longest margin of a TTL. The lock is renewed at a third of the TTL, and a sixth is left to do so.
fn longest(ttl: Duration) -> Duration {
    ttl / 2
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};

    fn work(options: &[&str]) -> Work {
        let line = [&["leasehold", "elect"], options, &["a", "--", "true"]].concat();
        let Command::Elect(elect) = Cli::parse_from(line).command else {
            panic!("another command")
        };
        elect.work
    }

    #[test]
    fn c40_a_leader_has_a_margin_of_its_grace_or_of_a_third_of_the_ttl() {
        for (options, grace, margin, warns) in [
            (&[][..], 5, 10, false),
            (&["--ttl", "6s"], 2, 2, false),
            (&["--ttl", "15s"], 5, 5, false),
            (&["--ttl", "60s", "--grace", "25s"], 25, 25, false),
            (&["--ttl", "15s", "--grace", "20s"], 20, 5, true),
            (&["--grace", "500000000000y"], 15_778_800_000_000_000_000, 10, true),
            (&["--margin", "1s"], 5, 1, true),
            (&["--margin", "15s"], 5, 15, false),
            (&["--margin", "0s", "--grace", "0s"], 0, 0, false),
        ] {
            let work = work(options);
            let ending = Ending::of_leader(&work).expect("a margin that fits");
            let [grace, margin] = [grace, margin].map(Duration::from_secs);
            assert_eq!(ending, Ending { grace, margin }, "{options:?}");
            let warning = ending.warning(work.lease.ttl);
            assert_eq!(warning.is_some(), warns, "{options:?}: {warning:?}");
        }
        let refused = Ending::of_leader(&work(&["--margin", "16s"])).expect_err("too long");
        assert_eq!(refused.exit(), Exit::Usage);
        assert!(refused.message().contains("choose 15s at most"), "{}", refused.message());
    }

    #[test]
    fn a_run_has_no_margin_unless_it_is_asked_for() {
        for (options, margin) in [(&[][..], 0), (&["--margin", "4s"], 4)] {
            let ending = Ending::of_run(&work(options)).expect("a margin that fits");
            assert_eq!(ending.margin, Duration::from_secs(margin));
        }
    }
}
