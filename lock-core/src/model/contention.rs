//! Knowledge of the others when a lock is busy.

use std::fmt;
use std::time::Duration;

use super::Label;

/// A point on the server's clock, counted from a start of the server's choice.
///
/// Two of them tell how long after the first reply a pushed grant was made, and so from when on the
/// holder's clock the lease counts at the earliest.
///
/// The time never falls back for one lock: a "busy" is told after each grant before it. Where the server's clock can be
/// set back, the backend takes one more than the newest token of the lock instead, if that is more: a grant is told at its
/// token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServerTime(pub Duration);

/// Knowledge of the others when a lock is busy.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Contention {
    /// The holder's lease lasts for this long if it is not renewed.
    pub ttl_left: Option<Duration>,
    /// The holder's own label.
    pub holder: Option<Label>,
    /// Set if the holder is a key without a TTL that is not ours (C49): somebody has written something else under the
    /// lock's name, or a client of locks forgot the TTL. Callers wait for it, and it stays until somebody deletes it.
    pub foreign_without_ttl: bool,
    /// Number of waiters before us in the queue, not counting the holder.
    pub position: Option<u64>,
    /// When this was so, on the server's clock.
    pub at: Option<ServerTime>,
}

impl Contention {
    /// Nothing is known but that the lock is busy.
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
            write!(f, " by {holder}")?;
        }
        if let Some(left) = self.ttl_left {
            write!(f, " for up to {left:.1?} more")?;
        }
        match self.position {
            Some(0) => f.write_str(", and we are next"),
            Some(ahead) => write!(f, ", and {ahead} wait before us"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c49_a_foreign_key_without_a_ttl_is_told() {
        let mut contention = Contention::unknown();
        assert_eq!(contention.to_string(), "it is held");
        contention.foreign_without_ttl = true;
        contention.position = Some(0);
        assert_eq!(
            contention.to_string(),
            "it is held by a key without a TTL that is not ours, and we are next"
        );
    }
}
