//! The fence: two holders of a lock increment one number. The first may be paused for any time.

use lock_testkit::explore::Model;

use crate::{falls, stands};

/// The way in which a holder uses the fence.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fence {
    /// C25: advances, then reads, then writes if the fence allows it; this last is one step.
    AdvanceReadWrite,
    /// Reads, then writes if the fence allows it.
    CheckTheWriteAlone,
    /// Like the protocol, but the check of a write and the write are two steps.
    CheckThenWrite,
    /// Reads, then writes.
    None,
}

/// Progress of a holder. Its place is its token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Holder {
    #[default]
    Advancing,
    Reading,
    Writing(u8),
    Checked(u8),
    Wrote,
    Refused,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct State {
    seen: u8,
    value: u8,
    /// Number of writes that were acknowledged.
    acknowledged: u8,
    holders: [Holder; 3],
}

impl Model for Fence {
    type State = State;

    fn start(&self) -> State {
        State::default()
    }

    fn steps(&self, state: &State) -> Vec<(String, State)> {
        let step = |place: usize| self.step(state, place);
        (0..state.holders.len()).map(|place| (format!("{place} acts"), step(place))).collect()
    }

    fn wrong(&self, state: &State) -> Option<String> {
        (state.value != state.acknowledged).then(|| "an increment is lost".to_owned())
    }

    fn is_done(&self, state: &State) -> bool {
        state.holders.iter().all(|holder| matches!(holder, Holder::Wrote | Holder::Refused))
    }
}

impl Fence {
    /// Returns the state after the next step of the holder at a place. Holders may overlap in any way: earlier ones
    /// have been paused.
    fn step(self, state: &State, place: usize) -> State {
        let (mut next, token) = (*state, place as u8 + 1);
        let is_stale = self != Self::None && token < state.seen;
        let advances = matches!(self, Self::AdvanceReadWrite | Self::CheckThenWrite);
        next.holders[place] = match state.holders[place] {
            Holder::Advancing if !advances => Holder::Reading,
            Holder::Advancing | Holder::Writing(_) if is_stale => Holder::Refused,
            Holder::Advancing => {
                next.seen = token;
                Holder::Reading
            }
            Holder::Reading => Holder::Writing(state.value + 1),
            Holder::Writing(value) if self == Self::CheckThenWrite => Holder::Checked(value),
            Holder::Writing(value) | Holder::Checked(value) => {
                (next.seen, next.value) = (state.seen.max(token), value);
                next.acknowledged += 1;
                Holder::Wrote
            }
            ended => ended,
        };
        next
    }
}

#[test]
fn c25_advance_read_write_loses_no_increment_in_any_order() {
    stands(&Fence::AdvanceReadWrite);
}

#[test]
fn c25_fences_that_are_used_otherwise_are_found() {
    [Fence::CheckTheWriteAlone, Fence::CheckThenWrite, Fence::None].iter().for_each(falls);
}
