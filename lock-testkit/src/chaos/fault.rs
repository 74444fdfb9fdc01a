//! Faults of a run.

/// A fault, by the name that [`Plan::fault`](super::Plan) takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its name.
    pub name: &'static str,
    /// Victim of the fault.
    pub place: Victim,
    /// True if the store forgets holds, so that S3 may break (P2).
    pub loses: bool,
}

/// Victim of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// The network of one worker.
    Network,
    /// One worker.
    Worker,
    /// The store.
    Server,
    /// A lock, whose holds an operator ends.
    Lock,
}

impl Fault {
    /// A fault under which the whole contract holds.
    pub const fn new(place: Victim, name: &'static str) -> Self {
        Self { name, place, loses: false }
    }

    /// Marks the fault as one that makes the store forget.
    pub const fn that_loses(self) -> Self {
        Self { loses: true, ..self }
    }
}

pub(super) const PAUSED: &str = "worker-paused";
pub(super) const KILLED: &str = "worker-killed";
pub(super) const EVICTED: &str = "evicted";
/// Ends records early on each store, since their lives follow the server's wall clock.
pub(super) const CLOCK_FORWARD: &str = "clock-forward";

/// The faults that need no support of the store.
pub(super) const OF_WORKERS: [Fault; 2] =
    [Fault::new(Victim::Worker, PAUSED), Fault::new(Victim::Worker, KILLED)];

/// An evicted holder learns of it at its next renewal, and believes until then.
pub(super) const OF_LOCKS: [Fault; 1] = [Fault::new(Victim::Lock, EVICTED).that_loses()];
