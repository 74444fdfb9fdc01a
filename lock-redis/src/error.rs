//! What the server's errors mean for the caller: was it done, and may a retry help?

use lock_core::{BackendError, Outcome};
use redis::{ErrorKind, RedisError, ServerErrorKind};

pub(crate) const BACKEND: &str = "redis";

/// A failed request, and how far it got.
#[derive(Debug)]
pub(crate) enum Failure {
    /// There was no connection to send it over.
    Connecting(RedisError),
    /// It was sent.
    Asking(RedisError),
}

impl Failure {
    pub(crate) fn is_unknown_program(&self) -> bool {
        let kind = ErrorKind::Server(ServerErrorKind::NoScript);
        matches!(self, Self::Asking(error) if error.kind() == kind)
    }
}

impl From<Failure> for BackendError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Connecting(error) if is_refusal(&error) => refused(
                error,
                "the server refuses to let us in: check user, password, database and TLS",
            ),
            Failure::Connecting(error) => {
                let context = "the server cannot be reached";
                BackendError::transient(BACKEND, Outcome::NotApplied, context, error)
            }
            Failure::Asking(error) => asked(error),
        }
    }
}

/// A reply that is not of the shape we asked for.
pub(crate) fn unreadable(what: &'static str) -> BackendError {
    let context = "the server's answer cannot be read";
    BackendError::permanent(BACKEND, Outcome::Unknown, context, what)
}

fn asked(error: RedisError) -> BackendError {
    match code_of(&error).as_str() {
        _ if error.is_io_error() => {
            let context = "the connection failed before the answer came";
            BackendError::transient(BACKEND, Outcome::Unknown, context, error)
        }
        code @ ("LOADING" | "BUSY" | "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN" | "READONLY"
        | "NOREPLICAS" | "MISCONF" | "OOM") => {
            let context = format!("the server does not take writes now ({code})");
            BackendError::transient(BACKEND, Outcome::NotApplied, context, error)
        }
        "NOAUTH" | "WRONGPASS" => {
            refused(error, "the server wants other credentials: check user and password")
        }
        "NOPERM" => {
            let context = "the user lacks rights: it needs EVALSHA, EVAL, the commands of the \
                           scripts, PUBLISH and SUBSCRIBE on leasehold-*, and the keys";
            BackendError::permanent(BACKEND, Outcome::Unknown, context, error)
        }
        "WRONGTYPE" => refused(error, "a key of another type is in the way: choose another name"),
        "COUNTER" => refused(error, "the fencing counter is damaged: delete that key"),
        "CLOCK" => refused(error, "the server's clock cannot be trusted: set it right"),
        "WITHDRAWN" => refused(error, "the claim was withdrawn"),
        "MOVED" | "ASK" | "CROSSSLOT" => {
            refused(error, "the server is part of a cluster, which this client does not follow")
        }
        _ => {
            let context = "the server reports an error";
            BackendError::permanent(BACKEND, Outcome::Unknown, context, error)
        }
    }
}

fn refused(error: RedisError, context: &'static str) -> BackendError {
    BackendError::permanent(BACKEND, Outcome::NotApplied, context, error)
}

/// Whether the server, or our own configuration, keeps us out: no retry will help.
fn is_refusal(error: &RedisError) -> bool {
    let kind = error.kind();
    let refused = matches!(error.code(), Some("NOAUTH" | "WRONGPASS" | "NOPERM" | "ERR"));
    refused
        || kind == ErrorKind::AuthenticationFailed
        || kind == ErrorKind::InvalidClientConfig
        || kind == ErrorKind::Server(ServerErrorKind::ResponseError)
}

/// The error's code; before Redis 7 the code of an error within a script is buried in its text.
fn code_of(error: &RedisError) -> String {
    let code = error.code().unwrap_or_default();
    let buried = error.detail().and_then(|text| text.split(": -").nth(1));
    match buried.and_then(|text| text.split(' ').next()) {
        Some(inner) if code == "ERR" => inner.to_owned(),
        _ => code.to_owned(),
    }
}
