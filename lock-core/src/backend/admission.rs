//! Decides if a request fits beside the present holds: one rule for all backends.

use crate::model::{Kind, Permits, Slots};

/// Outcome of a request beside the holds of its lock (C33).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The request fits, and gets these slots.
    Fits(Slots),
    /// The request waits.
    Waits,
}

impl Admission {
    /// Decides on a request of the kind `asked` beside the live holds `held`, each with its kind and slots.
    ///
    /// The queue is not considered here. A backend asks in the order of its queue, and stops at the first request
    /// that waits (C34).
    pub fn of<'a>(asked: Kind, held: impl IntoIterator<Item = (Kind, &'a Slots)>) -> Self {
        let mut taken = Vec::new();
        for (kind, slots) in held {
            match (asked, kind) {
                (Kind::Shared, Kind::Shared) => {}
                (Kind::OneOf(asked), Kind::OneOf(held)) if asked.of() == held.of() => {
                    taken.extend_from_slice(slots.as_slice());
                }
                _ => return Self::Waits,
            }
        }
        match asked {
            Kind::Exclusive | Kind::Shared => Self::Fits(Slots::NONE),
            Kind::OneOf(permits) => Self::slots(permits, &taken),
        }
    }

    /// C36: the lowest slots that are free, if there are enough.
    fn slots(permits: Permits, taken: &[u16]) -> Self {
        let free = (0..permits.of()).filter(|slot| !taken.contains(slot));
        let slots = Slots::new(free.take(permits.taken().into()));
        match slots.as_slice().len() == usize::from(permits.taken()) {
            true => Self::Fits(slots),
            false => Self::Waits,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_of(taken: u16, of: u16) -> Kind {
        Kind::OneOf(Permits::new(taken, of).expect("permits"))
    }

    fn admission(asked: Kind, held: &[(Kind, Slots)]) -> Admission {
        Admission::of(asked, held.iter().map(|(kind, slots)| (*kind, slots)))
    }

    #[test]
    fn c33_who_may_hold_beside_whom() {
        let kinds = [Kind::Exclusive, Kind::Shared, one_of(1, 2), one_of(1, 3)];
        let beside = kinds.map(|held| {
            kinds.map(|asked| {
                admission(asked, &[(held, Slots::new([0; 1][..held.slots().into()].to_vec()))])
            })
        });
        use Admission::{Fits, Waits};
        let slot = || Fits(Slots::new([1]));
        let expected = [
            [Waits, Waits, Waits, Waits],
            [Waits, Fits(Slots::NONE), Waits, Waits],
            [Waits, Waits, slot(), Waits],
            [Waits, Waits, Waits, slot()],
        ];
        assert_eq!(beside, expected);
    }

    #[test]
    fn c33_whatever_fits_a_free_lock_fits() {
        for kind in [Kind::Exclusive, Kind::Shared, one_of(3, 3)] {
            assert!(matches!(admission(kind, &[]), Admission::Fits(_)), "{kind}");
        }
    }

    #[test]
    fn c36_the_lowest_free_slots_are_given() {
        let held = [(one_of(1, 5), Slots::new([0])), (one_of(2, 5), Slots::new([2, 3]))];
        assert_eq!(admission(one_of(2, 5), &held), Admission::Fits(Slots::new([1, 4])));
        assert_eq!(admission(one_of(3, 5), &held), Admission::Waits);
    }
}
