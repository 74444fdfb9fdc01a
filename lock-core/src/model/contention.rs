//! The state of the other clients when a lock is busy.

use std::fmt;
use std::time::Duration;

use super::Label;

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
    /// True if the holder is a foreign key without a TTL (C49): somebody has written something else under the lock's
    /// name, or a client of locks forgot the TTL. Callers wait for it, and it stays until somebody deletes it.
    pub foreign_without_ttl: bool,
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
}

impl fmt::Display for Contention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it is held")?;
        if self.foreign_without_ttl {
            f.write_str(" by a key without a TTL that is not ours")?;
        }
        if let Some(holder) = self.holder.as_ref().filter(|label| !label.as_str().is_empty()) {
            write!(f, " by \"{holder}\"")?;
        }
        if let Some(left) = self.ttl_left {
            write!(f, " for up to {left:.1?} more")?;
        }
        match self.position {
            Some(0) => f.write_str(", and this claim is the next"),
            Some(ahead) => write!(f, ", and {ahead} wait before us"),
            None => Ok(()),
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
