//! The state of a claim on the server, as far as the client knows.

/// The state of one claim on the server, and so the cleanup that the claim needs (C19).
///
/// ```text
///             Asked            Granted           Ended
///   Absent ──────────▶ Pending ────────▶ Held ──────────▶ Absent
///      ▲      Refused  │  │
///      └───────────────┘  │ Unanswered
///                         ▼      Granted                     Ended
///                    Unresolved ────────▶ HeldUnresolved ──────────▶ Unresolved
/// ```
///
/// | state | the server may have | dropped |
/// | --- | --- | --- |
/// | `Absent` | nothing | nothing to do |
/// | `Pending` | the hold, or a place in the queue | withdraw |
/// | `Unresolved` | the same; and a request of it may come late | withdraw |
/// | `Held` | the hold | release |
/// | `HeldUnresolved` | the hold; and a request of it may come late | withdraw |
///
/// A request that was never answered may come late: it could take the lock after the release, and nobody would use
/// that hold. A withdrawal refuses such a request, a release does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ClaimState {
    #[default]
    Absent,
    Pending,
    Unresolved,
    Held,
    HeldUnresolved,
}

/// Events in the life of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClaimEvent {
    /// A request to acquire is sent.
    Asked,
    /// The answer is "busy", and the server keeps nothing of the claim.
    Refused,
    /// There was no answer, and the outcome is unknown.
    Unanswered,
    /// The claim holds the lock.
    Granted,
    /// The hold is over on the server, or belongs to another from now on.
    Ended,
}

impl ClaimState {
    /// Returns the state after `event`. An event that is impossible in a state does not change it.
    #[must_use]
    pub(crate) fn after(self, event: ClaimEvent) -> Self {
        use ClaimEvent::{Asked, Ended, Granted, Refused, Unanswered};
        match (self, event) {
            (Self::Absent, Asked) => Self::Pending,
            (Self::Pending, Refused) => Self::Absent,
            (Self::Pending, Unanswered) => Self::Unresolved,
            (Self::Pending, Granted) => Self::Held,
            (Self::Unresolved, Granted) => Self::HeldUnresolved,
            (Self::Held, Ended) => Self::Absent,
            (Self::HeldUnresolved, Ended) => Self::Unresolved,
            (state, _) => state,
        }
    }

    /// Returns true if a request of the claim was never answered.
    pub(crate) fn is_unresolved(self) -> bool {
        matches!(self, Self::Unresolved | Self::HeldUnresolved)
    }
}

#[cfg(test)]
mod tests {
    use super::ClaimEvent::{Asked, Ended, Granted, Refused, Unanswered};
    use super::ClaimState::{Absent, Held, HeldUnresolved, Pending, Unresolved};

    #[test]
    fn c19_each_state_after_each_event() {
        let events = [Asked, Refused, Unanswered, Granted, Ended];
        let table = [
            (Absent, [Pending, Absent, Absent, Absent, Absent]),
            (Pending, [Pending, Absent, Unresolved, Held, Pending]),
            (Unresolved, [Unresolved, Unresolved, Unresolved, HeldUnresolved, Unresolved]),
            (Held, [Held, Held, Held, Held, Absent]),
            (
                HeldUnresolved,
                [HeldUnresolved, HeldUnresolved, HeldUnresolved, HeldUnresolved, Unresolved],
            ),
        ];
        for (state, expected) in table {
            assert_eq!(events.map(|event| state.after(event)), expected, "from {state:?}");
        }
    }

    #[test]
    fn c19_what_was_never_answered_is_never_forgotten() {
        for state in [Unresolved, HeldUnresolved] {
            for event in [Asked, Refused, Unanswered, Granted, Ended] {
                assert!(state.after(event).is_unresolved(), "{state:?} after {event:?}");
            }
        }
    }
}
