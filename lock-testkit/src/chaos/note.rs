//! The events of a run as they are written: one JSON object a line.

use serde::{Deserialize, Serialize};

use super::linear::{Act, OperationOutcome};

/// An event that a process saw.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Note {
    /// Nanoseconds of the clock that the processes of the run share.
    pub(super) at: u64,
    /// The process: `run` with the networks and the store, or a worker.
    pub(super) who: String,
    #[serde(flatten)]
    pub(super) event: Event,
}

/// A number that is unique among the calls and operations of a process.
pub(super) type Number = u64;

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Event {
    /// The run begins.
    Run(Run),
    /// A lock is asked for; the call is to return within `bound` nanoseconds, unless that is 0.
    Call {
        call: Number,
        name: String,
        what: String,
        bound: u64,
    },
    /// The call is answered with a hold.
    Granted {
        call: Number,
        kind: String,
        token: u64,
        slots: Vec<u16>,
    },
    /// The call is answered without a hold.
    Failed {
        call: Number,
        why: String,
        error: Option<String>,
    },
    /// The call was dropped before its answer.
    Dropped {
        call: Number,
    },
    /// The holder believed in the hold at `moment`.
    Held {
        call: Number,
        moment: u64,
    },
    Extended {
        call: Number,
        outcome: String,
    },
    /// The hold is reported as lost, `late` nanoseconds after its deadline.
    Lost {
        call: Number,
        reason: String,
        late: u64,
    },
    /// The holder begins to give up the hold.
    Ending {
        call: Number,
        how: String,
    },
    /// The hold is given up. It lasted until `ending` if `lasted` is true (C47).
    Ended {
        call: Number,
        outcome: String,
        lasted: bool,
    },
    /// The work of an occurrence is over, and recorded if `is_recorded` is true.
    Ran {
        call: Number,
        occurrence: String,
        is_recorded: bool,
    },
    /// An operation on a register is called.
    Operation {
        operation: Number,
        register: String,
        act: Act,
    },
    /// The operation has returned; without an outcome, the operation may have been applied, or may be applied later.
    Returned {
        operation: Number,
        outcome: Option<OperationOutcome>,
    },
    /// The process stood still from this moment on.
    Stalled {
        from: u64,
    },
    /// A fault begins. The store may forget holds if `loses` is true.
    FaultBegins {
        fault: String,
        whom: String,
        loses: bool,
    },
    FaultEnds {
        fault: String,
        whom: String,
    },
}

/// The head of a history.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(super) struct Run {
    pub(super) store: String,
    pub(super) seed: u64,
    pub(super) workers: usize,
    /// Seconds of work under faults.
    pub(super) seconds: u64,
    /// Version of Leasehold.
    pub(super) version: String,
    /// Nanoseconds after a fault that loses holds in which two clients may believe.
    pub(super) forgets_for: u64,
}
