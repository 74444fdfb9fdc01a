//! Findings of a doctor on a live server.

use std::fmt;
use std::time::{Duration, SystemTime};

/// Greatest error of a clock that somebody keeps right.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(2);

/// One result of a [`doctor`](crate::Admin::doctor).
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Finding {
    /// The subject in a word or two: `eviction`, `persistence`.
    pub check: &'static str,
    /// The verdict.
    pub health: Health,
    /// The observation.
    pub seen: String,
    /// The remedy; nothing if all is well.
    pub remedy: Option<String>,
}

/// Health of something that locks depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
pub enum Health {
    /// No danger was found.
    Good,
    /// Endangers a promise of the contract.
    Risk,
    /// Could not be looked at.
    Unknown,
}

impl Finding {
    /// All is well.
    pub fn good(check: &'static str, seen: impl Into<String>) -> Self {
        Self { check, health: Health::Good, seen: seen.into(), remedy: None }
    }

    /// A danger to locks, and its remedy.
    pub fn risk(check: &'static str, seen: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, health: Health::Risk, seen: seen.into(), remedy: Some(remedy.into()) }
    }

    /// Something that could not be checked, and the remedy.
    pub fn unknown(check: &'static str, why: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, health: Health::Unknown, seen: why.into(), remedy: Some(remedy.into()) }
    }

    /// Judges the clock of a server by the time `theirs`, which was read between two readings of our own clock. It
    /// differs by the least that these times allow: a risk if that is more than 2 s.
    pub fn of_clock(before: SystemTime, theirs: SystemTime, after: SystemTime) -> Self {
        let ahead = theirs.duration_since(after).unwrap_or_default();
        let behind = before.duration_since(theirs).unwrap_or_default();
        let (off, way) = if ahead > behind { (ahead, "ahead of") } else { (behind, "behind") };
        if off <= CLOCK_TOLERANCE {
            return Self::good("clock", "the server's clock agrees with ours");
        }
        let seen = format!(
            "the server's clock is {off:.0?} {way} ours; if it is set, leases end early or late"
        );
        Self::risk("clock", seen, "let both hosts follow a time server, which adjusts by slewing")
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let health = match self.health {
            Health::Good => "good",
            Health::Risk => "risk",
            Health::Unknown => "unknown",
        };
        write!(f, "{health}: {}: {}", self.check, self.seen)?;
        match &self.remedy {
            Some(remedy) => write!(f, "; {remedy}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c31_a_clock_is_judged_by_its_distance() {
        let (now, minute) = (SystemTime::now(), Duration::from_secs(60));
        let of = |theirs| Finding::of_clock(now, theirs, now + Duration::from_secs(1));
        assert_eq!(of(now).health, Health::Good);
        assert_eq!(of(now + Duration::from_secs(3)).health, Health::Good);
        assert!(of(now + minute).seen.contains("59s ahead of"));
        assert!(of(now - minute).seen.contains("60s behind"));
        assert_eq!(of(now - minute).health, Health::Risk);
    }
}
