//! Decides if the history of a fenced register is linearizable, by the search of Wing, Gong and Lowe: each operation
//! takes effect at one moment between its call and its return.
//!
//! An operation with an unknown outcome may take effect at any later moment, or never.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

/// An operation on a register behind a fence.
#[derive(Clone, Debug)]
pub struct Operation {
    /// The process that asked for the operation.
    pub who: String,
    /// The act that was asked for.
    pub act: Act,
    /// Time of the call, in nanoseconds of the run's clock.
    pub called: u64,
    /// Time and outcome of the return; `None` if the operation may have been applied, or may be applied later.
    pub returned: Option<(u64, OperationOutcome)>,
}

/// The request of an operation to a register.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// Advances the fence to this token.
    Advance(u64),
    /// Reads under this token, since a store may refuse a read like a write.
    Read(u64),
    /// Writes under this token, and the number.
    Write(u64, u64),
}

impl Act {
    /// Returns the outcome of an act that was applied, if a read returned `value`.
    pub(super) fn done(self, value: u64) -> OperationOutcome {
        match self {
            Self::Read(_) => OperationOutcome::Value(value),
            Self::Advance(_) | Self::Write(..) => OperationOutcome::Done,
        }
    }
}

/// Outcome of an operation on a register.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OperationOutcome {
    /// The operation was applied.
    Done,
    /// The read returned this number.
    Value(u64),
    /// The fence refused the token.
    Stale,
    /// The operation was certainly not applied (C15).
    Never,
}

/// State of a fenced register: the greatest token seen, and the number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Register {
    seen: u64,
    value: u64,
}

impl Register {
    fn apply(self, act: Act) -> (Self, OperationOutcome) {
        let next = match act {
            Act::Advance(token) | Act::Write(token, _) if token < self.seen => {
                return (self, OperationOutcome::Stale);
            }
            Act::Read(_) => self,
            Act::Advance(token) => Self { seen: token, ..self },
            Act::Write(token, value) => Self { seen: token, value },
        };
        (next, act.done(self.value))
    }
}

/// A possible course of the operations so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Way {
    register: Register,
    /// The operations that have taken effect and not returned, in order.
    applied: Vec<usize>,
}

impl Way {
    /// Returns the course in which `operation` takes effect next, if its outcome agrees with the reported one.
    fn with(&self, number: usize, operation: &Operation) -> Option<Self> {
        let (register, outcome) = self.register.apply(operation.act);
        match (operation.act, operation.returned) {
            (Act::Read(token), Some((_, OperationOutcome::Stale))) if token < register.seen => {}
            (_, Some((_, told))) if told != outcome => return None,
            // An operation without an effect need not have happened.
            (_, None) if register == self.register => return None,
            _ => {}
        }
        let mut applied = self.applied.clone();
        applied.insert(applied.partition_point(|other| *other < number), number);
        Some(Self { register, applied })
    }

    /// Forgets operations that will never return, and would be refused now: nothing shows if they took effect.
    fn forget(&mut self, all: &[Operation]) {
        let seen = self.register.seen;
        self.applied.retain(|number| match (all[*number].returned, all[*number].act) {
            (None, Act::Advance(token) | Act::Write(token, _)) => token >= seen,
            _ => true,
        });
    }
}

/// Looks for an order of all operations that explains each outcome. Returns the number of courses that it looked at,
/// or the first operation with an unexplained outcome.
pub(super) fn explain(all: &[Operation]) -> Result<usize, usize> {
    // A read without an outcome proves nothing, and an operation that was not applied had no effect.
    let counts = |operation: &Operation| {
        !matches!(
            (operation.act, operation.returned),
            (Act::Read(_), None) | (_, Some((_, OperationOutcome::Never)))
        )
    };
    let mut events: Vec<(u64, bool, usize)> = Vec::new();
    for (number, operation) in all.iter().enumerate().filter(|(_, operation)| counts(operation)) {
        events.push((operation.called, false, number));
        events.extend(operation.returned.map(|(at, _)| (at, true, number)));
    }
    events.sort_unstable();
    let (mut ways, mut pending, mut looked) = (HashSet::from([Way::default()]), Vec::new(), 0);
    for (_, returns, number) in events {
        if !returns {
            pending.push(number);
            continue;
        }
        ways = after(ways, number, &pending, all, &mut looked);
        pending.retain(|other| *other != number);
        if ways.is_empty() {
            return Err(number);
        }
    }
    Ok(looked)
}

/// Returns the courses in which an operation has taken effect by its return. Other pending operations may have taken
/// effect before.
fn after(
    ways: HashSet<Way>,
    returning: usize,
    pending: &[usize],
    all: &[Operation],
    looked: &mut usize,
) -> HashSet<Way> {
    let mut open: Vec<Way> = ways.iter().cloned().collect();
    let (mut seen, mut done) = (ways, HashSet::new());
    while let Some(mut way) = open.pop() {
        *looked += 1;
        if let Ok(place) = way.applied.binary_search(&returning) {
            way.applied.remove(place);
            way.forget(all);
            done.insert(way);
            continue;
        }
        let next = pending.iter().filter(|number| way.applied.binary_search(number).is_err());
        for mut way in next.filter_map(|number| way.with(*number, &all[*number])) {
            way.forget(all);
            if seen.insert(way.clone()) {
                open.push(way);
            }
        }
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(act: Act, called: u64, returned: Option<(u64, OperationOutcome)>) -> Operation {
        Operation { who: String::new(), act, called, returned }
    }

    #[test]
    fn what_one_register_shows_is_explained() {
        let all = [
            operation(Act::Advance(1), 0, Some((1, OperationOutcome::Done))),
            operation(Act::Read(1), 2, Some((3, OperationOutcome::Value(0)))),
            operation(Act::Advance(2), 3, Some((6, OperationOutcome::Done))),
            operation(Act::Write(1, 1), 4, Some((5, OperationOutcome::Done))),
            operation(Act::Read(1), 6, Some((7, OperationOutcome::Value(1)))),
            operation(Act::Write(1, 9), 8, Some((9, OperationOutcome::Stale))),
        ];
        assert!(explain(&all).is_ok());
    }

    /// S4: the write of an earlier holder came between the read and the write of the next.
    #[test]
    fn s1_a_write_below_the_fence_is_not_explained() {
        let all = [
            operation(Act::Advance(2), 0, Some((1, OperationOutcome::Done))),
            operation(Act::Write(1, 1), 2, Some((3, OperationOutcome::Done))),
        ];
        assert_eq!(explain(&all), Err(1));
    }

    #[test]
    fn s8_an_unknown_outcome_may_come_later_or_never() {
        let write = operation(Act::Write(1, 1), 0, None);
        let read =
            |value, at| operation(Act::Read(1), at, Some((at + 1, OperationOutcome::Value(value))));
        assert!(explain(&[write.clone(), read(0, 5), read(1, 7)]).is_ok());
        assert!(explain(&[write.clone(), read(0, 5), read(0, 7)]).is_ok());
        assert_eq!(explain(&[write, read(1, 5), read(0, 7)]), Err(2));
    }

    #[test]
    fn s8_a_write_that_certainly_was_not_applied_is_never_read() {
        let write = operation(Act::Write(1, 1), 0, Some((1, OperationOutcome::Never)));
        assert_eq!(
            explain(&[write, operation(Act::Read(1), 2, Some((3, OperationOutcome::Value(1))))]),
            Err(1)
        );
    }

    /// Redis refuses the read of an earlier holder, and a file does not.
    #[test]
    fn s4_a_read_below_the_fence_may_be_refused_and_no_other() {
        let refused = Some((3, OperationOutcome::Stale));
        let read = |token| operation(Act::Read(token), 2, refused);
        let advanced = operation(Act::Advance(2), 0, Some((1, OperationOutcome::Done)));
        assert!(explain(&[advanced.clone(), read(1)]).is_ok());
        assert_eq!(explain(&[advanced, read(2)]), Err(1));
    }
}
