//! Meaning of errors for the caller: the outcome of the request, and the use of a retry.

use std::error::Error;
use std::fmt;

use lock_core::backend::NO_CREDENTIALS;
use lock_core::{BackendError, BoxError, Outcome};
use redis::{ErrorKind, RedisError, ServerErrorKind};

pub(crate) const BACKEND: &str = "redis";

/// The text on a server that takes no writes.
pub(crate) const REPLICA: &str = "the server is a replica";

/// The reason why a late request of a claim is refused (C19).
const WITHDRAWN: &str = "the claim was withdrawn";

/// A failed request and its progress.
pub(crate) type RequestError = lock_core::backend::RequestError<RedisError>;

/// Returns true if the server does not know the script of the request.
pub(crate) fn is_unknown_script(error: &RequestError) -> bool {
    let kind = ErrorKind::Server(ServerErrorKind::NoScript);
    matches!(error, RequestError::Execute(error) if error.kind() == kind)
}

/// Turns the driver's error into the caller's remedy (C15).
pub(crate) fn classify(error: RequestError) -> BackendError {
    match error {
        RequestError::Connect(error) if is_full(&error) => full(error),
        RequestError::Connect(error) if is_refusal(&error) => {
            let context =
                "the server refuses the connection: check user, password, database and TLS";
            refused(error, context)
        }
        RequestError::Connect(error) if error.code() == Some("DENIED") => refused(
            error,
            "the server is in protected mode, and takes only clients of its own machine: give it a password, or set \
             protected-mode no",
        ),
        // The server answered, and says why it serves nobody now.
        RequestError::Connect(error) if error.code().is_some() => classify_answer(error),
        RequestError::Connect(error) => {
            let context = connecting(&error);
            BackendError::transient(BACKEND, Outcome::NotApplied, context, source(error))
        }
        RequestError::Execute(error) => classify_answer(error),
    }
}

/// The error when servers refer to each other for a lock: its slot is moving.
pub(crate) fn still_moving(error: RedisError) -> BackendError {
    let context = "the cluster moves the lock to another server";
    BackendError::transient(BACKEND, Outcome::NotApplied, context, source(error))
}

/// The error when no known server accepts the request.
pub(crate) fn no_server(context: &'static str, source: impl Into<BoxError>) -> BackendError {
    BackendError::transient(BACKEND, Outcome::NotApplied, context, source)
}

/// The error of sentinels that do not know the name in the URL.
#[cfg(feature = "sentinel")]
pub(crate) fn unknown_primary() -> BackendError {
    let context = "the sentinels watch no primary of this name, which is the last part of the URL";
    BackendError::permanent(BACKEND, Outcome::NotApplied, context, "they were asked")
}

/// The error of a URL that names a server other than a sentinel.
#[cfg(feature = "sentinel")]
pub(crate) fn no_sentinel(error: BackendError) -> BackendError {
    let context =
        "the server is no sentinel: name the sentinels (port 26379), or connect by redis://";
    BackendError::permanent(BACKEND, Outcome::NotApplied, context, error)
}

/// The error of a lock's key of another type, `kind`.
pub(crate) fn not_a_lock(kind: &str) -> BackendError {
    BackendError::not_a_lock(BACKEND, format!("a key of type {kind}"))
}

/// The error of a reply that does not have the shape of the script's answer.
pub(crate) fn unreadable(what: &'static str) -> BackendError {
    let context = "the server's answer cannot be read";
    BackendError::permanent(BACKEND, Outcome::Unknown, context, what)
}

fn classify_answer(error: RedisError) -> BackendError {
    match code_of(&error).as_str() {
        // A full server says so on a new connection, before it reads a request.
        _ if is_full(&error) => full(error),
        _ if error.is_io_error() => {
            let context = "the connection failed before the answer came: check the server, and the network to it";
            BackendError::transient(BACKEND, Outcome::Unknown, context, source(error))
        }
        code @ ("LOADING" | "BUSY" | "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN" | "READONLY"
        | "NOREPLICAS" | "MISCONF" | "OOM") => {
            let remedy = remedy(code);
            let context = format!("the server does not take writes now ({code}){remedy}");
            BackendError::transient(BACKEND, Outcome::NotApplied, context, source(error))
        }
        "NOAUTH" | "WRONGPASS" => {
            refused(error, "the server wants other credentials: check user and password")
        }
        "NOPERM" => lacks(error, &[]),
        UNKNOWN => {
            let context = format!(
                "the server, or a proxy before it, has no {}: connect to the server itself",
                command_in(error.detail().unwrap_or_default())
            );
            let source = UnknownCommand(source(error).to_string());
            BackendError::permanent(BACKEND, Outcome::NotApplied, context, source)
        }
        // C15: a script may have done a part of its work already.
        RENAMED => {
            let context = "the server lacks a command that locks need, perhaps by rename-command in its settings; \
                           `leasehold doctor` names it";
            BackendError::permanent(BACKEND, Outcome::Unknown, context, source(error))
        }
        // C49: the key is no lock. Waiting would not help.
        "NOTALOCK" => not_a_lock(error.detail().unwrap_or_default()),
        "LOCKKEY" => {
            let key = error.detail().unwrap_or_default();
            let context = format!(
                "the key \"{key}\" belongs to a lock or to the fence: give the data a key of its own, such as \
                 {key}:data"
            );
            BackendError::refusal(BACKEND, context)
        }
        "NOCLUSTER" => refused(error, "the server is part of no cluster: connect by redis://"),
        "WRONGTYPE" => refused(
            error,
            "a key of another type is in the place of a companion of the lock, such as {NAME}:fence, {NAME}:queue or \
             {NAME}:waiters: `leasehold doctor NAME` tells which; delete it, or choose another name",
        ),
        "COUNTER" => refused(error, "the fencing counter is damaged: delete that key"),
        "CLOCK" => refused(error, "the server's clock cannot be trusted: set it right"),
        "WITHDRAWN" => refused(error, WITHDRAWN),
        "MOVED" | "ASK" => refused(
            error,
            "the server is part of a cluster: connect to the cluster, by redis-cluster://",
        ),
        "CROSSSLOT" => {
            refused(error, "a cluster takes keys of one slot at once: give them a {tag} in common")
        }
        _ => {
            let context = "the server reports an error";
            BackendError::permanent(BACKEND, Outcome::Unknown, context, source(error))
        }
    }
}

/// Returns the remedy for a server that accepts no writes; empty if that is temporary.
fn remedy(code: &str) -> &'static str {
    match code {
        "READONLY" => ": it is a replica; name its primary in the URL",
        "LOADING" => ": it started, and reads its data",
        "BUSY" => ": a script or function of somebody runs for a long time; SCRIPT KILL ends it",
        "OOM" => ": it has reached its maxmemory; raise that, or free memory",
        "MISCONF" => ": it cannot write to its disk; see its log",
        "NOREPLICAS" => ": fewer replicas are connected than min-replicas-to-write",
        _ => "",
    }
}

/// The server's text on an unknown command.
#[derive(Debug)]
struct UnknownCommand(String);

impl fmt::Display for UnknownCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for UnknownCommand {}

/// Returns true if the server does not know the command of the request.
pub(crate) fn lacks_command(error: &RequestError) -> bool {
    matches!(error, RequestError::Execute(error) if code_of(error) == UNKNOWN)
}

/// Returns true if the error is an unknown command.
pub(crate) fn is_unknown_command(error: &BackendError) -> bool {
    error.cause().is_some_and(|cause| cause.is::<UnknownCommand>())
}

/// Returns the result of opening a subscription. Behind a proxy without SUBSCRIBE, waiters poll instead.
pub(crate) fn listening(opened: Result<(), BackendError>) -> Result<(), BackendError> {
    opened.or_else(|error| if is_unknown_command(&error) { Ok(()) } else { Err(error) })
}

/// Returns the command of `unknown command 'EVALSHA'`.
fn command_in(text: &str) -> String {
    let quoted = text.split(['\'', '`']).nth(1);
    quoted.map_or_else(|| "command that locks need".to_owned(), str::to_uppercase)
}

/// Returns true if the user lacks a right. No retry helps then.
pub(crate) fn lacks_right(error: &RequestError) -> bool {
    matches!(error, RequestError::Execute(error) if code_of(error) == "NOPERM")
}

/// The error of a user without the rights to these commands, and perhaps without others.
pub(crate) fn lacks_rights(error: RequestError, missing: &[String]) -> BackendError {
    match error {
        RequestError::Execute(error) => lacks(error, missing),
        RequestError::Connect(_) => classify(error),
    }
}

/// Returns true if the error, of one server or of several, says that the user lacks a right.
pub(crate) fn is_about_rights(error: &BackendError) -> bool {
    let text = error.to_string();
    ["the user may not", "the user lacks"].iter().any(|told| text.contains(told))
}

fn lacks(error: RedisError, missing: &[String]) -> BackendError {
    let text = error.detail().unwrap_or_default();
    let named = command_of(text);
    let rights = missing.iter().filter(|missing| !missing.starts_with('!'));
    let mut missing: Vec<&str> = rights.map(String::as_str).collect();
    if let Some(named) = named
        && !missing.iter().any(|command| command.eq_ignore_ascii_case(named))
    {
        missing.insert(0, named);
    }
    let context = match &missing[..] {
        [] | ["&leasehold-*"] if text.contains(" channel") => {
            "the user may not PUBLISH to the channels of clients, or SUBSCRIBE to its own: grant &leasehold-*".to_owned()
        }
        [] if text.contains(" key") => {
            "the user may not use the key of the lock, or its companions: grant ~NAME ~{NAME}:*, or for \
             all names that begin with shop: the rights ~shop:* ~{shop:*"
                .to_owned()
        }
        [] => {
            "the user lacks rights: it needs EVALSHA, EVAL, the commands of the scripts, PUBLISH \
               and SUBSCRIBE on leasehold-*, and the keys"
                .to_owned()
        }
        missing => {
            let commands = missing.join(", ").to_uppercase();
            let rights = missing.join(" +").to_lowercase();
            format!("the user may not run {commands}, which a lock needs: grant +{rights}")
        }
    };
    // C15: a script may have done a part of its work already.
    BackendError::permanent(BACKEND, Outcome::Unknown, context, source(error))
}

/// Returns the command of `… to run the 'get' command`.
fn command_of(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("to run the '")?;
    rest.split_once('\'').map(|(command, _)| command)
}

fn refused(error: RedisError, context: &'static str) -> BackendError {
    BackendError::permanent(BACKEND, Outcome::NotApplied, context, source(error))
}

/// Returns true if the server, or our own configuration, refuses us: no retry will help.
fn is_refusal(error: &RedisError) -> bool {
    let kind = error.kind();
    is_refused_login(error)
        || matches!(error.code(), Some("NOPERM" | "ERR"))
        || kind == ErrorKind::InvalidClientConfig
        || kind == ErrorKind::Server(ServerErrorKind::ResponseError)
}

/// Returns true if the server refuses the user or the password.
pub(crate) fn is_refused_login(error: &RedisError) -> bool {
    let refused = matches!(error.code(), Some("NOAUTH" | "WRONGPASS"));
    refused || error.kind() == ErrorKind::AuthenticationFailed
}

fn full(error: RedisError) -> BackendError {
    let context = "the server has as many clients as its maxclients allows: raise that, or close idle connections";
    BackendError::transient(BACKEND, Outcome::NotApplied, context, source(error))
}

/// Returns the context of a connection that failed before a server answered a request. The libraries for TLS have no
/// common kind of error.
fn connecting(error: &RedisError) -> &'static str {
    let text = error.to_string().to_lowercase();
    match () {
        () if text.contains(NO_CREDENTIALS) => "no connection was made",
        () if ["certificate", "handshake"].iter().any(|word| text.contains(word)) => {
            "the server and this client do not accept each other by TLS: check its certificate, the authority that \
             signed it, and the host in the URL"
        }
        () if text.contains(REPLICA) => {
            "no primary is at the address: name it in the URL, or wait for the failover"
        }
        () => "the server cannot be reached: check that it runs, and the network to it",
    }
}

/// Returns true if the server has no room for another client.
fn is_full(error: &RedisError) -> bool {
    error.detail().is_some_and(|text| text.contains("max number of clients"))
}

/// The code that stands for an unknown command, of a server or of a proxy.
const UNKNOWN: &str = "UNKNOWN";

/// The code that stands for a command of a script that the server does not have.
const RENAMED: &str = "RENAMED";

/// Refusals of a script's command for a user: since Redis 7.2, and before it for a command, a key or a channel.
const REFUSALS: [&str; 4] = [
    "ACL failure in script",
    "can't run this command",
    "can't access at least one of the keys",
    "can't publish to the channel",
];

/// The codes of errors that commands in a script may have.
const CODES: [&str; 7] =
    ["COUNTER", "MISCONF", "NOREPLICAS", "OOM", "READONLY", "WRONGTYPE", "NOPERM"];

/// Returns the error's code. The code of an error in a script may be inside the text: Redis 6 puts its own code
/// first, and so does every version if the script itself raised the error.
pub(crate) fn code_of(error: &RedisError) -> String {
    let (code, text) = (error.code().unwrap_or_default(), error.detail().unwrap_or_default());
    if code != "ERR" {
        return code.to_owned();
    }
    if text.contains("cluster support disabled") {
        return "NOCLUSTER".to_owned();
    }
    if REFUSALS.iter().any(|refusal| text.contains(refusal)) {
        return "NOPERM".to_owned();
    }
    if text.starts_with("unknown command") || text.starts_with("unsupported command") {
        return UNKNOWN.to_owned();
    }
    if text.contains("Unknown Redis command") {
        return RENAMED.to_owned();
    }
    let words = text.split(": ").filter_map(|part| part.split(' ').next());
    let mut codes = words.map(|word| word.trim_start_matches('-'));
    codes.find(|word| CODES.contains(word)).unwrap_or(code).to_owned()
}

/// Returns the driver's error without the parts of our request that the server repeats, which may hold an owner id
/// (C32).
fn source(error: RedisError) -> BoxError {
    match error.to_string().split_once("with args beginning with") {
        Some((told, _)) => told.trim_end_matches([',', ' ']).into(),
        None => error.into(),
    }
}

#[cfg(test)]
mod tests;
