//! Meaning of the server's errors for the caller: the outcome of the request, and the use of a retry.

use etcd_client::Error;
use lock_core::backend::{CertificateError, CredentialError};
use lock_core::{BackendError, Outcome};

pub(crate) const BACKEND: &str = "etcd";

const LEASE_GONE: &str = "the lease ended before it was used";

/// The numbers of gRPC's status codes.
mod code {
    pub(super) const NOT_FOUND: i32 = 5;
    pub(super) const PERMISSION_DENIED: i32 = 7;
    pub(super) const RESOURCE_EXHAUSTED: i32 = 8;
    pub(super) const INVALID_ARGUMENT: i32 = 3;
    pub(super) const FAILED_PRECONDITION: i32 = 9;
    pub(super) const OUT_OF_RANGE: i32 = 11;
    pub(super) const UNIMPLEMENTED: i32 = 12;
    pub(super) const UNAUTHENTICATED: i32 = 16;
}

/// Returns true if the server says that a lease does not exist.
pub(crate) fn is_lease_gone(error: &Error) -> bool {
    match error {
        Error::GRpcStatus(status) => i32::from(status.code()) == code::NOT_FOUND,
        Error::LeaseKeepAliveError(text) => text.contains("lease not found"),
        _ => false,
    }
}

/// Returns true if the server says that the lease to be granted exists already.
pub(crate) fn is_lease_there(error: &Error) -> bool {
    matches!(error, Error::GRpcStatus(status) if status.message().contains("lease already exists"))
}

/// Returns true if another member, or a new connection, may succeed.
pub(crate) fn spoils_connection(error: &Error) -> bool {
    is_stale_login(error)
        || match error {
            Error::GRpcStatus(status) => !is_answer(i32::from(status.code())),
            Error::LeaseKeepAliveError(_) => !is_lease_gone(error),
            _ => true,
        }
}

/// Returns true if a status with this code is a final answer of the server.
fn is_answer(code: i32) -> bool {
    matches!(
        code,
        code::NOT_FOUND
            | code::PERMISSION_DENIED
            | code::RESOURCE_EXHAUSTED
            | code::INVALID_ARGUMENT
            | code::FAILED_PRECONDITION
            | code::OUT_OF_RANGE
            | code::UNIMPLEMENTED
            | code::UNAUTHENTICATED
    )
}

/// Returns true if the server has forgotten our login: a new login may help.
fn is_stale_login(error: &Error) -> bool {
    matches!(error, Error::GRpcStatus(status)
        if ["invalid auth token", "revision of auth store is old"]
            .iter()
            .any(|text| status.message().contains(text)))
}

/// Returns true if the server refuses the user or the password.
pub(crate) fn is_refused_login(error: &Error) -> bool {
    matches!(error, Error::GRpcStatus(status)
        if is_of_login(i32::from(status.code())) && is_about_login(status.message()))
}

/// The error of a login that was valid: a new login may help.
pub(crate) fn forgotten_login(error: &Error) -> BackendError {
    for_now("the server has forgotten our login", text(error))
}

/// Classifies an error of the client library.
pub(crate) fn classify(error: Error) -> BackendError {
    let source = text(&error);
    if is_lease_gone(&error) {
        return lease_gone();
    }
    if is_stale_login(&error) {
        return forgotten_login(&error);
    }
    match &error {
        Error::GRpcStatus(status) => {
            classify_status(i32::from(status.code()), status.message(), source)
        }
        _ => classify_local(&error, source),
    }
}

fn classify_status(code: i32, message: &str, source: String) -> BackendError {
    let for_good =
        |outcome, context, source| BackendError::permanent(BACKEND, outcome, context, source);
    match code {
        code::PERMISSION_DENIED if message.contains("permission denied") => {
            let context = "the user lacks rights: it needs to read and write the keys below the \
                           root";
            for_good(Outcome::NotApplied, context, source)
        }
        code::RESOURCE_EXHAUSTED => {
            // etcd carries out the request that crosses its quota, and then refuses it.
            let outcome = match message.contains("space exceeded") {
                true => Outcome::Unknown,
                false => Outcome::NotApplied,
            };
            let context = "the server takes no more writes now: check its space and its alarms";
            BackendError::transient(BACKEND, outcome, context, source)
        }
        code if is_of_login(code) && is_about_login(message) => {
            let context = "the server wants other credentials: check user and password";
            for_good(Outcome::NotApplied, context, source)
        }
        code if is_answer(code) => {
            for_good(Outcome::Unknown, "the server reports an error", source)
        }
        _ if never_left(&source) => unreachable(source),
        _ if message.contains("learner") => for_now(
            "the member is a learner, which grants no locks: name the members that vote",
            source,
        ),
        _ if message.contains("no leader") => {
            for_now("the cluster has no leader: most members are down or cut off", source)
        }
        _ => match misunderstanding(&source) {
            Some(context) => for_now(context, source),
            None => no_word(source),
        },
    }
}

/// Returns the error of a request that was not applied, and may succeed later.
fn for_now(context: &'static str, source: String) -> BackendError {
    BackendError::transient(BACKEND, Outcome::NotApplied, context, source)
}

fn classify_local(error: &Error, source: String) -> BackendError {
    match error {
        Error::IoError(error)
            if error.get_ref().is_some_and(|error| {
                error.is::<CertificateError>() || error.is::<CredentialError>()
            }) =>
        {
            for_now("no connection was made", source)
        }
        Error::TransportError(_) if never_left(&source) => unreachable(source),
        Error::TransportError(_)
        | Error::IoError(_)
        | Error::WatchError(_)
        | Error::LeaseKeepAliveError(_)
        | Error::EndpointError(_)
        | Error::Internal(_) => no_word(source),
        _ => {
            let context = "the client library does not accept the request";
            BackendError::permanent(BACKEND, Outcome::NotApplied, context, source)
        }
    }
}

/// Returns true if the error is [`lease_gone`].
pub(crate) fn says_lease_gone(error: &BackendError) -> bool {
    error.to_string().contains(LEASE_GONE)
}

/// The error of a key whose lease has expired or was revoked: the key was not written.
pub(crate) fn lease_gone() -> BackendError {
    BackendError::transient(BACKEND, Outcome::NotApplied, LEASE_GONE, "requested lease not found")
}

/// The error of a request that another one has overtaken, so that it did nothing. The next try sees the effect of the
/// other one.
pub(crate) fn overtaken(what: &'static str) -> BackendError {
    let context = "another request came in between";
    BackendError::transient(BACKEND, Outcome::NotApplied, context, what)
}

/// The error of a reply with an unexpected shape.
pub(crate) fn unreadable(what: &'static str) -> BackendError {
    let context = "the server's answer cannot be read";
    BackendError::permanent(BACKEND, Outcome::Unknown, context, what)
}

/// The error of a key whose value this version does not understand. `then` is the effect of its deletion.
pub(crate) fn not_understood(key: &str, what: &str, then: &str) -> BackendError {
    let context = format!(
        "the key {key:?} is not {what} that this version understands: use the version that wrote it, or delete the \
         key; {then}"
    );
    BackendError::refusal(BACKEND, context)
}

/// The error of an answer from another store than the known one, or from an earlier state of it: its tokens would
/// repeat.
pub(crate) fn refusal(context: &'static str) -> BackendError {
    let remedy = "make sure that the URL names the members of one cluster; if a backup was restored, delete the key \
                  `floor` below the root, so that tokens go on above all earlier ones, and restart the clients";
    BackendError::permanent(BACKEND, Outcome::Unknown, context, remedy)
}

fn unreachable(source: String) -> BackendError {
    let context = "the member cannot be reached: check that it runs, and the network to it";
    BackendError::transient(BACKEND, Outcome::NotApplied, context, source)
}

/// The error of a missing or incomplete answer.
pub(crate) fn no_word(source: impl Into<lock_core::BoxError>) -> BackendError {
    let context = "the connection or the cluster failed before the answer came: check the cluster, and the network to it";
    BackendError::transient(BACKEND, Outcome::Unknown, context, source)
}

/// Returns true if the text shows that no connection could be made: nothing was sent.
fn never_left(text: &str) -> bool {
    ["error trying to connect", "tcp connect error", "dns error", "Connection refused"]
        .iter()
        .any(|cause| text.contains(cause))
}

/// Returns the reason why the other side understands no request: it speaks another protocol. `None` if it does not
/// look so.
fn misunderstanding(text: &str) -> Option<&'static str> {
    // The first bytes of the answer were taken for the length of a frame.
    if text.contains("frame with invalid size") {
        return Some(
            "the server does not speak etcd's protocol: name the port of clients (2379), and if the server speaks \
             TLS, say etcds, not etcd",
        );
    }
    let has_no_tls =
        ["tls handshake eof", "received corrupt message"].iter().any(|e| text.contains(e));
    has_no_tls.then_some(
        "the server did not answer by TLS: for a server without TLS use etcd://, not etcds://",
    )
}

/// Returns true if the server ended a connection without a word.
pub(crate) fn ended_silently(error: &BackendError) -> bool {
    let text = error.to_string().to_lowercase();
    let ended = ["broken pipe", "connection reset", "connection closed", "unexpected end of file"];
    ended.iter().any(|end| text.contains(end))
}

/// Returns true if the server ended the handshake of TLS, and said so.
pub(crate) fn is_tls_alert(error: &BackendError) -> bool {
    error.to_string().contains("received fatal alert")
}

/// The error of a server that ended the first connection without TLS.
pub(crate) fn refused_by_plain(error: BackendError) -> BackendError {
    let context =
        "the server ended the connection before it answered: if it speaks TLS, say etcds, not etcd";
    BackendError::transient(BACKEND, error.outcome(), context, error)
}

/// The error of a server that ended a connection by TLS, perhaps because of this client's certificate.
pub(crate) fn refused_by_tls(error: BackendError, doubt: &str) -> BackendError {
    let context = format!(
        "the server ended the connection before it answered by TLS: {doubt}; for a server without TLS use etcd://, not \
         etcds://"
    );
    BackendError::transient(BACKEND, error.outcome(), context, error)
}

/// Returns true if a status with this code may be about the login.
fn is_of_login(code: i32) -> bool {
    matches!(
        code,
        code::UNAUTHENTICATED
            | code::INVALID_ARGUMENT
            | code::FAILED_PRECONDITION
            | code::PERMISSION_DENIED
    )
}

fn is_about_login(message: &str) -> bool {
    ["authentication", "user name is empty", "auth token", "invalid user"]
        .iter()
        .any(|cause| message.contains(cause))
}

/// Returns the error and its causes, each once, without the status's copy of the reply's headers.
fn text(error: &Error) -> String {
    let mut text = match error {
        Error::GRpcStatus(status) => format!("{:?}: {}", status.code(), status.message()),
        other => other.to_string(),
    };
    let first = match error {
        Error::GRpcStatus(status) => std::error::Error::source(status),
        Error::TransportError(error) => std::error::Error::source(error),
        _ => None,
    };
    let mut cause = first;
    while let Some(error) = cause {
        let told = error.to_string();
        if !text.contains(&told) {
            text = format!("{text}: {told}");
        }
        cause = error.source();
    }
    text
}
