//! The state of the other clients when a lock is busy.

use std::fmt;
use std::time::Duration;

use super::{Kind, Label};

/// A point on the server's clock, counted from a start of the server's choice.
///
/// The difference of two such times tells how long after the first reply a pushed grant was made. So it gives the
/// earliest start of the lease on the holder's clock.
///
/// The time never falls back for one lock: a "busy" has a lower time than each later grant. If the server's clock can
/// be set back, the backend takes the newest token of the lock plus one where that is greater; the time of a grant is
/// then its token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServerTime(pub Duration);

/// The state of the other clients when a lock is busy.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Contention {
    /// The holder's lease lasts for this long if it is not renewed.
    pub ttl_left: Option<Duration>,
    /// The holder's own label.
    pub holder: Option<Label>,
    /// True if the holder is a client of another kind (C29), which releases without a message to waiters. The first
    /// waiter of the queue then looks more often.
    pub is_foreign: bool,
    /// Number of permits of the lock, as its holders count them; 0 if they hold no permits. A request that counts
    /// another number waits until these holders are gone (C33).
    pub permits: u16,
    /// The first waiter, if it waits for permits and is not this claim: its number of permits, and its label. Only
    /// claims on permits are told. In a box, since few errors have one.
    pub first_waiter: Option<Box<(u16, Label)>>,
    /// True if the holder is a foreign key without a TTL (C49): somebody has written something else under the lock's
    /// name, or a client of locks forgot the TTL. Callers wait for it, and it stays until somebody deletes it.
    pub foreign_without_ttl: bool,
    /// True if the turn of the first waiter has come, and the store does not show yet that it holds; others may hold
    /// permits beside it. If that waiter has died, another request of this client two seconds later passes it (C28).
    pub is_untaken: bool,
    /// Number of waiters before us in the queue, not counting the holder.
    pub position: Option<u64>,
    /// Time of this state on the server's clock.
    pub at: Option<ServerTime>,
}

impl Contention {
    /// A busy lock of which nothing else is known.
    pub fn unknown() -> Self {
        Self::default()
    }

    /// Returns the number of permits of the holders, if a request of the kind `asked` counts another number (C33).
    pub fn other_number(&self, asked: Kind) -> Option<u16> {
        let (asked, held) = (asked.permits(), self.permits);
        (asked > 0 && held > 0 && asked != held).then_some(held)
    }

    /// Returns a claim before a request of the kind `asked` that counts another number of permits: its number and its
    /// label.
    pub(crate) fn disagrees(&self, asked: Kind) -> Option<(u16, Option<&Label>)> {
        let first = self.first_waiter.as_deref().filter(|(number, _)| *number != asked.permits());
        let waits =
            || first.filter(|_| asked.permits() > 0).map(|(number, label)| (*number, Some(label)));
        let holds = self.other_number(asked).map(|held| (held, self.holder.as_ref()));
        holds.or_else(waits)
    }
}

impl fmt::Display for Contention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_free = self.is_untaken && self.holder.is_none();
        f.write_str(match is_free {
            true => "its next holder has not taken it yet",
            false => "it is held",
        })?;
        if self.foreign_without_ttl {
            f.write_str(" by a key without a TTL that is not ours")?;
        }
        if let Some(holder) = self.holder.as_ref().filter(|label| !label.as_str().is_empty()) {
            write!(f, " by \"{holder}\"")?;
        }
        if self.permits > 0 {
            write!(f, " as one of {}", self.permits)?;
        }
        if let Some(left) = self.ttl_left {
            write!(f, " for up to {left:.1?} more")?;
        }
        if self.is_untaken && !is_free {
            f.write_str(", and the next holder has not taken its turn yet")?;
        }
        match self.position {
            Some(0) => f.write_str(", and this claim is the next"),
            Some(ahead) => write!(f, ", and {ahead} wait before us"),
            None => Ok(()),
        }?;
        match self.first_waiter.as_deref() {
            Some((number, _)) if *number != self.permits => {
                write!(f, ", the first as one of {number}")
            }
            Some(_) | None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c14_a_holder_is_told_by_its_label_in_quotes() {
        let holder = Label::new("one for up to").ok();
        let contention = Contention { holder, ..Contention::unknown() };
        assert_eq!(contention.to_string(), "it is held by \"one for up to\"");
    }

    #[test]
    fn c28_a_waiter_whose_turn_has_come_is_no_holder() {
        let contention = Contention { is_untaken: true, ..Contention::unknown() };
        assert_eq!(contention.to_string(), "its next holder has not taken it yet");
        let holder = Label::new("one").ok();
        let beside = Contention { holder, permits: 2, ..contention };
        assert_eq!(
            beside.to_string(),
            "it is held by \"one\" as one of 2, and the next holder has not taken its turn yet"
        );
    }

    #[test]
    fn c33_another_number_is_that_of_the_holders() {
        let kind = |of| Kind::OneOf(crate::model::Permits::new(1, of).expect("permits"));
        let held = Contention { permits: 3, ..Contention::unknown() };
        assert_eq!(held.other_number(kind(2)), Some(3));
        assert_eq!(
            [kind(3), Kind::Shared, Kind::Exclusive].map(|asked| held.other_number(asked)),
            [None; 3]
        );
        assert_eq!(Contention::unknown().other_number(kind(2)), None, "they hold no permits");
        let left = Some(Duration::from_secs(1));
        let told = Contention { ttl_left: left, ..held }.to_string();
        assert_eq!(told, "it is held as one of 3 for up to 1.0s more");
        let first_waiter = Some(Box::new((5, Label::default())));
        let behind =
            Contention { permits: 3, position: Some(2), first_waiter, ..Contention::unknown() };
        assert_eq!(behind.other_number(kind(3)), None, "only a waiter counts otherwise");
        let numbers = [kind(3), kind(5), Kind::Shared].map(|asked| behind.disagrees(asked));
        assert_eq!(numbers.map(|other| other.map(|(number, _)| number)), [Some(5), Some(3), None]);
        assert_eq!(
            behind.to_string(),
            "it is held as one of 3, and 2 wait before us, the first as one of 5"
        );
    }

    #[test]
    fn c49_a_foreign_key_without_a_ttl_is_told() {
        let mut contention = Contention::unknown();
        assert_eq!(contention.to_string(), "it is held");
        contention.foreign_without_ttl = true;
        contention.position = Some(0);
        assert_eq!(
            contention.to_string(),
            "it is held by a key without a TTL that is not ours, and this claim is the next"
        );
    }
}
