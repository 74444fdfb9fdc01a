//! Maps errors of the client library: was the request applied, and may a retry help?

use lock_core::{BackendError, Outcome};
use zookeeper_client::Error;

pub(crate) const BACKEND: &str = "zookeeper";

/// Classifies an error of the client library.
pub(crate) fn classify(error: Error) -> BackendError {
    let transient =
        |outcome, context| BackendError::transient(BACKEND, outcome, context, error.to_string());
    let permanent =
        |context| BackendError::permanent(BACKEND, Outcome::NotApplied, context, error.to_string());
    match error {
        Error::NoHosts => transient(Outcome::NotApplied, "no server can be reached"),
        Error::NoAuth | Error::InvalidAcl => permanent(
            "the user lacks rights: it needs to create, read, write and delete nodes below the root",
        ),
        Error::AuthFailed => permanent("the server wants other credentials"),
        Error::BadArguments(_) => permanent("the client library does not accept the request"),
        Error::QuotaExceeded => permanent("the quota of the root is used up"),
        Error::Unimplemented => permanent("the server is too old: use 3.5.3 or newer"),
        Error::NotReadOnly => {
            transient(Outcome::NotApplied, "the server is cut off from most others, and only reads")
        }
        Error::Throttled => transient(Outcome::NotApplied, "the server is overloaded"),
        Error::SessionExpired => transient(Outcome::Unknown, "our session has expired"),
        Error::ConnectionLoss => transient(
            Outcome::Unknown,
            "the connection was lost: check the servers, and the network to them",
        ),
        _ => transient(Outcome::Unknown, "no useful answer"),
    }
}

/// Returns true if the session will answer no request any more.
pub(crate) fn ends_session(error: &Error) -> bool {
    matches!(
        error,
        Error::SessionExpired
            | Error::SessionMoved
            | Error::ClientClosed
            | Error::AuthFailed
            // The runtime that served the session is gone.
            | Error::UnexpectedError(_)
    )
}

/// Error of a request that did nothing, because another one came in between. The next try sees the result of that
/// one.
pub(crate) fn overtaken(what: &'static str) -> BackendError {
    BackendError::transient(BACKEND, Outcome::NotApplied, "another request came in between", what)
}
