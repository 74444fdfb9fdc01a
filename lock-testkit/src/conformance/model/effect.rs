//! The effects of a step, in words that do not differ between stores.

use lock_core::{Kind, Slots};

/// Result of a step, without values that differ between runs: the number of a grant stands for its token.
#[derive(Debug, PartialEq)]
pub(super) struct Seen {
    pub(super) answer: Effect,
    /// Outcomes for waiters and holders, by their numbers.
    pub(super) told: Vec<(usize, Effect)>,
}

#[derive(Debug, PartialEq)]
pub(super) enum Effect {
    Granted(usize, Slots),
    NotGranted,
    /// The lock is held as one of this other number of permits.
    Conflict(u16),
    /// True if there was something to extend, or to end.
    Done(bool),
    Lost,
    Died,
    /// The step asked nothing.
    Nothing,
    Evicted(Vec<Held>),
    /// The holders of the lock, and the number of waiters.
    Held(Vec<Held>, u64),
}

impl Effect {
    /// Returns the number of the grant, if it is one.
    pub(super) fn number_mut(&mut self) -> Option<&mut usize> {
        match self {
            Self::Granted(number, _) => Some(number),
            _ => None,
        }
    }

    /// Returns true if a waiter may be counted twice: it came over a new connection, and the server has not noticed
    /// the end of the old one.
    pub(super) fn has_more_waiters_than(&self, expected: &Self) -> bool {
        match (self, expected) {
            (Self::Held(held, waiters), Self::Held(is_to_be, wait)) => {
                held == is_to_be && waiters > wait
            }
            _ => false,
        }
    }
}

/// The number of its grant if it is a hold of the history, its kind and its slots.
pub(super) type Held = (Option<usize>, Kind, Slots);
