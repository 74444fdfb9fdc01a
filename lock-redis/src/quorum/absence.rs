//! Servers that restarted and count for nobody yet: neither for a vote, nor as having or lacking a hold.

use std::time::Duration;

use lock_core::{BackendError, Outcome};
use redis::Value;

use super::BACKEND;

/// The reason why a server does not count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Absence {
    /// A restart, or a loss of its data: it was not let in yet.
    New,
    /// Admitted, but its time is not over: it counts again after this span.
    Out(Duration),
}

/// Reads the answer of a server that does not count; `None` for any other answer.
pub(super) fn of(reply: &Value) -> Option<Absence> {
    let Value::Array(parts) = reply else { return None };
    match &parts[..] {
        [Value::BulkString(word)] if word == b"new" => Some(Absence::New),
        [Value::BulkString(word), left] if word == b"out" => {
            Some(Absence::Out(Duration::from_millis(millis(left))))
        }
        _ => None,
    }
}

/// Returns the number of ms; 0 for a span that cannot be read.
fn millis(left: &Value) -> u64 {
    redis::from_redis_value(left.clone()).unwrap_or(0)
}

impl Absence {
    /// Returns the error of a request to this server. Nothing was done.
    pub(super) fn error(self, address: &str) -> BackendError {
        let why = match self {
            Self::New => "the server is new or restarted, and is not admitted yet".to_owned(),
            Self::Out(left) => format!("the restarted server stays out for {left:.1?} more"),
        };
        BackendError::transient(BACKEND, Outcome::NotApplied, address.to_owned(), why)
    }
}
