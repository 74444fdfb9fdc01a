//! Everything that a seed decides before a world begins: machines, troubles, clocks and scripts.

use std::time::Duration;

use crate::flaw::Flaw;
use crate::rng::Rng;
use crate::script::{Step, steps};

/// Troubles begin within this span. After it the world is healed.
const TROUBLED: Duration = Duration::from_secs(6);

/// The longest trouble.
const LONGEST_TROUBLE: Duration = Duration::from_secs(3);

/// The plan of one world.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) flaw: Option<Flaw>,
    /// True if nothing goes wrong except delays: then the queue is fair, and no hold is lost.
    pub(crate) is_calm: bool,
    pub(crate) machines: Vec<Machine>,
    pub(crate) troubles: Vec<Trouble>,
    /// Steps of the server's clock.
    pub(crate) server_steps: Vec<(Duration, i64)>,
    pub(crate) specialty: Specialty,
}

/// Something that happens in some worlds only, so that it hides nothing in the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Specialty {
    None,
    /// The server's clock is also set forward. Holds end too early then, which no lock with a lease survives: what a fence
    /// protects still holds.
    ClockSetForward,
    /// The election is observed (C40).
    Observed,
    /// The tasks of a machine share their holds (C43), and write nothing.
    Reentrant,
}

impl Specialty {
    fn of(seed: u64) -> Self {
        match seed % 8 {
            1 => Self::ClockSetForward,
            3 => Self::Observed,
            5 => Self::Reentrant,
            _ => Self::None,
        }
    }
}

/// A client with its tasks.
#[derive(Debug)]
pub(crate) struct Machine {
    /// Rate of its clock.
    pub(crate) rate: f64,
    pub(crate) request_timeout: Duration,
    /// Time of its death, if it dies.
    pub(crate) dies_at: Option<Duration>,
    pub(crate) tasks: Vec<Vec<Step>>,
}

/// A trouble for a while, between one machine and the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trouble {
    pub(crate) from: Duration,
    pub(crate) to: Duration,
    /// Its machine; `None` for all.
    pub(crate) machine: Option<usize>,
    pub(crate) kind: TroubleKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TroubleKind {
    /// Requests are refused at once, with an error that says they are not applied.
    Refused,
    /// The connection breaks: the request may arrive, and its outcome is unknown.
    Reset,
    RequestsSwallowed,
    RepliesSwallowed,
    PushesSwallowed,
    /// Requests arrive twice, as if a driver sends them again.
    Twice,
    /// Messages take up to the length of the trouble.
    Slow,
    /// Pushes take up to the length of the trouble.
    SlowPushes,
    /// The machine or the server stands still: messages arrive when it continues.
    Stopped,
}

const KINDS: [TroubleKind; 9] = [
    TroubleKind::Refused,
    TroubleKind::Reset,
    TroubleKind::RequestsSwallowed,
    TroubleKind::RepliesSwallowed,
    TroubleKind::PushesSwallowed,
    TroubleKind::Twice,
    TroubleKind::Slow,
    TroubleKind::SlowPushes,
    TroubleKind::Stopped,
];

impl Plan {
    pub(crate) fn new(seed: u64, flaw: Option<Flaw>) -> Self {
        let rng = &mut Rng::new(seed, 0);
        let is_calm = rng.one_in(5);
        let count = 1 + rng.below(3) as usize;
        let machines = (0..count).map(|_| machine(rng, count, is_calm, flaw)).collect();
        let many = if is_calm { 0 } else { rng.below(7) };
        let troubles = (0..many).map(|_| trouble(rng, count)).collect();
        let mut server_steps = match rng.below(4) {
            0 if !is_calm => (0..1 + rng.below(2)).map(|_| server_step(rng)).collect(),
            _ => Vec::new(),
        };
        let specialty = Specialty::of(seed);
        if specialty == Specialty::ClockSetForward && !is_calm {
            server_steps.push(step_forward(&mut Rng::new(seed, 2)));
        }
        Self { seed, flaw, is_calm, machines, troubles, server_steps, specialty }
    }

    /// Returns true if the server keeps no hold for less than its TTL.
    pub(crate) fn keeps_ttls(&self) -> bool {
        self.server_steps.iter().all(|(_, millis)| *millis <= 0)
    }

    /// Returns the time from which nothing goes wrong any more.
    pub(crate) fn healed_at(&self) -> Duration {
        TROUBLED + LONGEST_TROUBLE
    }

    /// Returns the troubles of a machine at `at`.
    pub(crate) fn troubles(&self, machine: usize, at: Duration) -> impl Iterator<Item = &Trouble> {
        let hits = move |trouble: &&Trouble| {
            let there = trouble.machine.is_none_or(|struck| struck == machine);
            there && (trouble.from..trouble.to).contains(&at)
        };
        self.troubles.iter().filter(hits)
    }
}

fn machine(rng: &mut Rng, count: usize, is_calm: bool, flaw: Option<Flaw>) -> Machine {
    let rate = match flaw {
        Some(Flaw::SlowClock) => 0.9,
        // Within the margin of 1 % between two clocks.
        _ => 0.996 + rng.below(9) as f64 / 1000.0,
    };
    let request_timeout = Duration::from_millis(rng.pick(&[200, 500, 2000]));
    let dies_at = (!is_calm && rng.one_in(8)).then(|| rng.span(TROUBLED));
    let tasks = (0..1 + rng.below(3)).map(|_| steps(rng, count)).collect();
    Machine { rate, request_timeout, dies_at, tasks }
}

fn trouble(rng: &mut Rng, count: usize) -> Trouble {
    let from = rng.span(TROUBLED);
    let longest = rng.pick(&[50, 500, 3000]);
    let to = from + rng.span(Duration::from_millis(longest));
    let machine = (!rng.one_in(4)).then(|| rng.below(count as u64) as usize);
    Trouble { from, to, machine, kind: rng.pick(&KINDS) }
}

/// Returns a step back.
fn server_step(rng: &mut Rng) -> (Duration, i64) {
    (rng.span(TROUBLED), -(rng.below(3000) as i64))
}

fn step_forward(rng: &mut Rng) -> (Duration, i64) {
    (rng.span(TROUBLED), rng.pick(&[50, 1000, 100_000]))
}
