//! State that all parts of a world share: its plan, time, random draws and journal.

use std::collections::{HashMap, HashSet};
use std::fmt::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::{FencingToken, Kind, LostSignal};
use tokio::time::Instant;

use crate::flaw::Flaw;
use crate::plan::Plan;
use crate::rng::Rng;

/// One world.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) plan: Plan,
    started: Instant,
    rng: Mutex<Rng>,
    journal: Mutex<Journal>,
}

/// Everything that happened, as text and as facts to judge.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    pub(crate) trace: String,
    pub(crate) beliefs: Vec<Belief>,
    /// Steps of each claim on the server, in order.
    pub(crate) served: Vec<Served>,
    /// Locks and tokens of evicted holds, and the end of each hold.
    pub(crate) evictions: Vec<(String, FencingToken, Duration)>,
    /// True if a run was evicted.
    pub(crate) is_once_evicted: bool,
    pub(crate) runs: Vec<Run>,
    /// The term that an observer was shown last; `Some(None)` if nobody led then.
    pub(crate) shown: Option<Option<FencingToken>>,
    /// State of each acquisition, by label and lock.
    pub(crate) asked: HashMap<(String, String), Asked>,
    /// The last hold of each lock that tasks of a machine may share (C43): its token, and the signal of its end.
    pub(crate) shared: HashMap<(usize, &'static str), (FencingToken, LostSignal)>,
    /// Locks whose lease was lost on its way to another machine.
    pub(crate) abandoned: HashSet<String>,
    pub(crate) calls: u64,
    pub(crate) requests: u64,
    pub(crate) violations: Vec<String>,
}

/// A span of time in which a task believed in a hold.
#[derive(Clone, Debug)]
pub(crate) struct Belief {
    pub(crate) label: String,
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) token: FencingToken,
    pub(crate) slots: Vec<u16>,
    /// The machine whose tasks may share the hold (C43).
    pub(crate) shared_on: Option<usize>,
    /// Time of the call of the acquisition.
    pub(crate) asked: Duration,
    pub(crate) from: Duration,
    pub(crate) to: Duration,
}

impl Belief {
    /// Returns true if both are guards of one hold.
    pub(crate) fn is_shared_with(&self, other: &Self) -> bool {
        self.shared_on.is_some() && self.shared_on == other.shared_on && self.token == other.token
    }
}

/// A step of a claim on the server.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    pub(crate) name: String,
    /// The visible digits of its owner.
    pub(crate) owner: String,
    pub(crate) at: Duration,
    pub(crate) step: ServedStep,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServedStep {
    Queued,
    Granted(FencingToken),
    /// Its place or hold ended.
    Gone,
}

/// A run of an occurrence.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) label: String,
    pub(crate) occurrence: u64,
    pub(crate) asked: Duration,
    pub(crate) began: Duration,
    /// Time at which the task knew of the record.
    pub(crate) recorded: Option<Duration>,
    pub(crate) at_least: Option<Duration>,
}

/// State of an acquisition.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asked {
    /// Number of its requests in flight.
    pub(crate) on_their_way: u32,
    pub(crate) is_queued: bool,
    pub(crate) is_released: bool,
}

impl World {
    pub(crate) fn new(plan: Plan) -> Arc<Self> {
        let rng = Mutex::new(Rng::new(plan.seed, 1));
        Arc::new(Self { plan, started: Instant::now(), rng, journal: Mutex::default() })
    }

    /// Returns the time since the world began.
    pub(crate) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    pub(crate) fn instant(&self, at: Duration) -> Instant {
        self.started + at
    }

    pub(crate) fn has(&self, flaw: Flaw) -> bool {
        self.plan.flaw == Some(flaw)
    }

    /// Draws the next random choice.
    pub(crate) fn draw<T>(&self, draw: impl FnOnce(&mut Rng) -> T) -> T {
        draw(&mut self.rng.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn span(&self, most: Duration) -> Duration {
        self.draw(|rng| rng.span(most))
    }

    pub(crate) fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a line of the trace.
    pub(crate) fn note(&self, what: fmt::Arguments<'_>) {
        let millis = self.now().as_secs_f64() * 1000.0;
        // Writing to a string cannot fail.
        let _ = writeln!(self.journal().trace, "{millis:>10.3} {what}");
    }

    /// Notes that a clause was broken.
    pub(crate) fn accuse(&self, clause: &str, what: impl fmt::Display) {
        self.note(format_args!("BROKEN {clause}: {what}"));
        self.journal().violations.push(format!("{clause}: {what}"));
    }

    pub(crate) fn served(&self, name: &str, owner: impl fmt::Display, step: ServedStep) {
        let (name, owner, at) = (name.to_owned(), owner.to_string(), self.now());
        self.note(format_args!("server {name} {owner} {step:?}"));
        self.journal().served.push(Served { name, owner, at, step });
    }

    /// Changes the state of an acquisition.
    pub(crate) fn know(&self, label: &str, name: &str, change: impl FnOnce(&mut Asked)) {
        let key = (label.to_owned(), name.to_owned());
        change(self.journal().asked.entry(key).or_default());
    }

    pub(crate) fn known(&self, label: &str, name: &str) -> Asked {
        let key = (label.to_owned(), name.to_owned());
        self.journal().asked.get(&key).copied().unwrap_or_default()
    }
}
