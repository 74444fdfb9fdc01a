//! Maps errors of the server and the driver: was the request applied, and may a retry help?

use std::io;

use lock_core::backend::CredentialError;
use lock_core::{BackendError, BoxError, LockError, Outcome};
use sqlx::Error;

pub(crate) const BACKEND: &str = "postgres";

/// Codes that the functions of the schema raise.
const CLOCK: &str = "LH002";
pub(crate) const STALE: &str = "LH003";
pub(crate) const NOT_OURS: &str = "LH004";

/// Text for a server that takes no writes.
pub(crate) const READ_ONLY: &str = "the server takes no writes: it is a standby, or default_transaction_read_only is on for \
    this user or database";

/// Code of a limit: in requests for locks that of the queue of notifications.
pub(crate) const LIMIT_EXCEEDED: &str = "54000";

const REFUSED: &str =
    "the server refuses the connection: check user, password, database, pg_hba.conf and TLS";

/// A failed request, and how far it came.
pub(crate) type RequestError = lock_core::backend::RequestError<Error>;

/// Returns the server's error code, if the error is the server's.
pub(crate) fn code_of(error: &RequestError) -> Option<String> {
    error.error().as_database_error()?.code().map(|code| code.into_owned())
}

/// Returns the server's message; empty if the error is not the server's.
pub(crate) fn message_of(error: &RequestError) -> String {
    error.error().as_database_error().map(|error| error.message().to_owned()).unwrap_or_default()
}

/// Returns true if the server may have ended a procedure by this error after the procedure's own commit: by a time-out, a
/// cancel, the end of the session, or for want of room.
pub(crate) fn may_follow_a_commit(error: &RequestError) -> bool {
    let interrupts =
        |code: String| ["53", "55", "57", "25P04"].iter().any(|class| code.starts_with(class));
    matches!(error, RequestError::Execute(_)) && code_of(error).is_some_and(interrupts)
}

/// Classifies an error of the driver by what the caller can do about it (C15).
pub(crate) fn classify(error: RequestError) -> BackendError {
    match error {
        RequestError::Connect(error) => classify_connect(error),
        RequestError::Execute(error) => classify_answer(error),
    }
}

/// Error of a client that could not connect.
pub(crate) fn not_connected(error: RequestError) -> LockError {
    failed(classify(error))
}

/// Error of a client whose server answered, but cannot keep locks as it is.
pub(crate) fn refused(why: impl Into<String>) -> LockError {
    failed(BackendError::refusal(BACKEND, why))
}

pub(crate) fn failed(source: BackendError) -> LockError {
    LockError::Backend { operation: "connect", name: None, source }
}

/// A reply of an unexpected shape.
pub(crate) fn unreadable(what: &'static str) -> BackendError {
    let context = "the server's answer cannot be read";
    BackendError::permanent(BACKEND, Outcome::Unknown, context, what)
}

/// Returns true if the server refuses the user or the password.
pub(crate) fn is_refused_login(error: &Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    code.is_some_and(|code| code.starts_with("28"))
}

fn classify_connect(error: Error) -> BackendError {
    let code = error.as_database_error().and_then(|error| error.code()).unwrap_or_default();
    let transient = match &*code {
        // Too many connections, starting up, shutting down, and refusals of pgbouncer itself.
        _ if code.starts_with("53") || code.starts_with("57") || code.starts_with("08") => true,
        // The driver reports the end of a connection during the handshake as a protocol error. A session that
        // listens has its own pool, which reports a slow server as a time-out.
        // While the files of certificates are replaced, a handshake may fail.
        "" => {
            matches!(error, Error::Io(_) | Error::Protocol(_) | Error::PoolTimedOut | Error::Tls(_))
        }
        _ => false,
    };
    if transient {
        let context = match error {
            Error::Tls(_) => REFUSED,
            Error::Io(ref inner) if is_without_credentials(inner) => "no connection was made",
            _ if code.starts_with("53") || code == "57014" => meaning(&code),
            _ => "the server cannot be reached: check that it runs, and the network to it",
        };
        BackendError::transient(BACKEND, Outcome::NotApplied, context, source(error))
    } else {
        BackendError::permanent(BACKEND, Outcome::NotApplied, REFUSED, source(error))
    }
}

fn is_without_credentials(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<CredentialError>())
}

fn classify_answer(error: Error) -> BackendError {
    let Some(code) = error.as_database_error().and_then(|error| error.code()) else {
        let context =
            "the connection failed before the answer came: check the server, and the network to it";
        return BackendError::transient(BACKEND, Outcome::Unknown, context, source(error));
    };
    // An error of the server ends the transaction, so nothing was applied. Only an error during the commit could
    // leave that open, and its class is another.
    let (outcome, context) = (Outcome::NotApplied, meaning(&code));
    match &*code {
        "26000" | "42P05" | "2D000" | "40001" | "40P01" | "55P03" | "57014" | "25006" | "0A000"
        | "25P04" | "57P01" | "57P02" | "57P03" | "57P05" => {
            BackendError::transient(BACKEND, outcome, context, source(error))
        }
        _ if code.starts_with("53") => {
            BackendError::transient(BACKEND, outcome, context, source(error))
        }
        // The release may have been committed before its message was refused.
        _ if code == LIMIT_EXCEEDED || ["08", "58", "XX"].iter().any(|of| code.starts_with(of)) => {
            BackendError::transient(BACKEND, Outcome::Unknown, context, source(error))
        }
        _ => BackendError::permanent(BACKEND, outcome, context, source(error)),
    }
}

fn meaning(code: &str) -> &'static str {
    match code {
        CLOCK => "the server's clock cannot be trusted: set it right",
        STALE => "the token is stale",
        "25006" => READ_ONLY,
        // A standby refuses even to read the unlogged tables. No other feature that the requests need is missing
        // on a server that could make the schema.
        "0A000" => "the server cannot do this: it is a standby, or not Postgres",
        "42501" => {
            "the user lacks rights: GRANT USAGE ON SCHEMA leasehold TO app; GRANT EXECUTE ON ALL ROUTINES IN \
             SCHEMA leasehold TO app, with the names of the schema and the user"
        }
        "26000" | "42P05" | "2D000" => "a pooler gives each transaction another session",
        "3F000" | "42P01" | "42883" => {
            "the schema of the locks is missing or of another format: run what `leasehold schema postgres` of \
             the newest version in use prints, and use that version"
        }
        LIMIT_EXCEEDED => {
            "the server has no room for messages: a session that listens does not read them"
        }
        "22021" | "22P05" => "the database cannot hold this name: its encoding should be UTF8",
        "23514" => "the token counter is at its end or damaged: repair the row of this lock",
        "57014" => "the server took too long, and gave the request up",
        "40001" | "40P01" | "55P03" => "others used the same row at the same time",
        _ if code.starts_with("57") => "the server ended the connection",
        _ if code.starts_with("53") => "the server has no room: connections, memory or disk",
        _ => "the server reports an error",
    }
}

/// Returns the error's text without its details, in which the server shows values of a row.
pub(crate) fn source(error: Error) -> BoxError {
    match &error {
        Error::Database(database) => {
            let code = database.code().unwrap_or_default();
            format!("{} ({code})", database.message()).into()
        }
        Error::Io(inner) => io::Error::new(inner.kind(), inner.to_string()).into(),
        // The driver's settings hold the password.
        Error::Configuration(_) => "the driver does not accept the settings".into(),
        other => other.to_string().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c15_a_server_that_lets_nobody_in_for_a_while_is_a_passing_failure() {
        let of_tls = Error::Tls("a key that is not yet that of the certificate".into());
        for error in [Error::PoolTimedOut, Error::Io(io::ErrorKind::TimedOut.into()), of_tls] {
            let error = classify(RequestError::Connect(error));
            assert!(error.is_transient(), "{error}");
            assert_eq!(error.outcome(), Outcome::NotApplied);
        }
    }
}
