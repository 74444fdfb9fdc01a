//! Events for the program that started us.

use std::collections::BTreeMap;

use leasehold::core::Slots;
use leasehold::{LockName, MultiGuard};
use serde::Serialize;

use crate::exit::{Exit, Failure};
use crate::redaction::redacted;

/// A line of JSON.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub(crate) enum Event {
    Held {
        name: String,
        token: u64,
        ttl_ms: u64,
        slots: Slots,
        tokens: BTreeMap<String, u64>,
    },
    Lost {
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        reason: String,
    },
    Busy {
        reason: String,
    },
    Released,
    Error {
        code: u8,
        reason: String,
    },
}

impl Event {
    /// Returns the event of a hold: name, token and slots of the first lock on the command line, and the tokens of
    /// all.
    pub(crate) fn held(names: &[LockName], guard: &MultiGuard) -> Option<Self> {
        let first = names.first()?;
        let hold = guard.guards().iter().find(|hold| hold.name() == first)?;
        let left = guard.guards().iter().map(|hold| hold.remaining()).min().unwrap_or_default();
        let tokens = guard.tokens().map(|(name, token)| (name.as_str().to_owned(), token.get()));
        Some(Self::Held {
            name: first.as_str().to_owned(),
            token: hold.token().get(),
            ttl_ms: left.as_millis().try_into().unwrap_or(u64::MAX),
            slots: Slots::new(hold.slots()),
            tokens: tokens.collect(),
        })
    }

    pub(crate) fn lost(name: &LockName, reason: &str) -> Self {
        Self::Lost { name: Some(name.as_str().to_owned()), reason: redacted(reason) }
    }

    pub(crate) fn error(exit: Exit, reason: &str) -> Self {
        Self::Error { code: exit.number(), reason: redacted(reason) }
    }
}

impl From<Failure> for Event {
    fn from(failure: Failure) -> Self {
        let reason = redacted(failure.message());
        match failure.exit() {
            Exit::NotAcquired => Self::Busy { reason },
            Exit::Lost => Self::Lost { name: None, reason },
            exit => Self::Error { code: exit.number(), reason },
        }
    }
}
