//! Findings of a doctor on a live server.

use std::fmt;

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
