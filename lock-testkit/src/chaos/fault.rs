//! Faults of a run.

/// A fault, by the name that [`Plan::fault`](super::Plan) takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its name.
    pub name: &'static str,
    /// Victim of the fault.
    pub place: Place,
    /// Set if it makes the store forget what it answered, so that S3 may break (P2).
    pub loses: bool,
}

/// Victim of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The network of one worker.
    Network,
    /// One worker.
    Worker,
    /// The store.
    Server,
    /// The lock, by an operator.
    Lock,
}

impl Fault {
    /// A fault under which all of the contract holds.
    pub const fn new(place: Place, name: &'static str) -> Self {
        Self { name, place, loses: false }
    }

    /// The same fault where it makes the store forget.
    pub const fn that_loses(self) -> Self {
        Self { loses: true, ..self }
    }
}

pub(super) const PAUSED: &str = "worker-paused";
pub(super) const KILLED: &str = "worker-killed";
pub(super) const EVICTED: &str = "evicted";

/// The faults that need nothing of the store.
pub(super) const OF_WORKERS: [Fault; 2] =
    [Fault::new(Place::Worker, PAUSED), Fault::new(Place::Worker, KILLED)];

/// A holder is told of its eviction by its next renewal, and believes until then.
pub(super) const OF_LOCKS: [Fault; 1] = [Fault::new(Place::Lock, EVICTED).that_loses()];
