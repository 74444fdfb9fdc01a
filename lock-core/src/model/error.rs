//! Errors, sorted by the caller's remedy.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use super::{
    BackendError, Contention, FenceError, InputKind, InvalidInput, LockName, LockState, LostReason,
    Occurrence,
};

/// The reason why an operation on a lock failed.
///
/// Texts are one line that names the lock, the cause and the remedy. They hold no owner id and no password. The text
/// has the whole cause, so [`Error::source`] is `None`, and a printed chain repeats nothing. The backend's error is
/// the field `source`, and the driver's is its [`cause`](BackendError::cause).
///
/// # What to do about it
/// | error | [is](Self::is_busy) | try again? | HTTP |
/// | --- | --- | --- | --- |
/// | [`NotAcquired`](Self::NotAcquired), [`Timeout`](Self::Timeout) | busy | later, or tell the caller to | 409, or 503 with `Retry-After` |
/// | [`Timeout`](Self::Timeout) without an answer | transient | later | 503 |
/// | [`Lost`](Self::Lost) | lost | the whole work, if the resource has a fence or the work is idempotent | 503 |
/// | [`Backend`](Self::Backend) | transient, if its source [is](BackendError::is_transient) | later; the client has retried already | 503 |
/// | [`Backend`](Self::Backend) | not transient | no: rights, password | 500 |
/// | [`NotALock`](Self::NotALock) | | no: its name is in use for something else | 500 |
/// | [`Incomplete`](Self::Incomplete) | as its source | as its source; it has the locks of the rest | 503 |
/// | [`Conflict`](Self::Conflict), [`Unsupported`](Self::Unsupported) | | no: its users disagree, or the backend has not got it | 500 |
/// | [`RuntimeStopped`](Self::RuntimeStopped) | transient, if the runtime is late | later | 503 |
/// | [`RuntimeStopped`](Self::RuntimeStopped) | not transient: it has ended | no: the client needs a runtime that lives as long as it does | 500 |
/// | [`Closed`](Self::Closed) | | no: this process shuts down | 503 |
/// | [`Invalid`](Self::Invalid) | | no | 400 if it came from the caller, else 500 |
/// | [`Config`](Self::Config), and all others | | no | 500 |
#[derive(Debug)]
#[non_exhaustive]
pub enum LockError {
    /// A name, a TTL or another input is outside its limits. Nothing was sent.
    Invalid(InvalidInput),
    /// The URL names no backend that can be used.
    Config {
        /// The fault, and its remedy.
        message: String,
    },
    /// The lock is held by another, and the request would not wait.
    NotAcquired {
        /// The lock.
        name: LockName,
        /// State of the other clients.
        contention: Contention,
    },
    /// The lock did not become free within the wait, or the server gave no usable answer within it.
    Timeout {
        /// The lock.
        name: LockName,
        /// Length of the wait.
        waited: Duration,
        /// Last known state of the other clients. `None` if the server is silent: a request had no answer for half of
        /// the wait, or of a request time-out if that is shorter, and no other task that waits for the lock had one.
        contention: Option<Contention>,
    },
    /// The hold is over, though nobody released it. It cannot be restored: acquire the lock anew.
    Lost {
        /// The lock.
        name: LockName,
        /// The way in which the loss was noticed.
        reason: LostReason,
        /// Error of the last renewal, if that failed and the hold [expired](LostReason::Expired).
        source: Option<BackendError>,
    },
    /// The hold is under another guard of this client. Use that guard, or detach it first. If the guards share
    /// the hold ([`Reentrance`](crate::Reentrance)), the last of them can be detached.
    AlreadyAttached {
        /// The lock.
        name: LockName,
    },
    /// The holder was evicted, but the fence of its resource could not be advanced past its token. The former holder
    /// may write until the next holder has advanced the fence.
    Unfenced {
        /// The lock.
        name: LockName,
        /// Error of the fence.
        source: FenceError,
    },
    /// The run ended well, but the outcome of its recording is unknown (C42): a later run of the same occurrence may
    /// repeat it.
    Unrecorded {
        /// The lock.
        name: LockName,
        /// The occurrence of the run.
        occurrence: Occurrence,
        /// Error of the backend.
        source: BackendError,
    },
    /// The backend cannot do this, and [says so](crate::Capabilities). Nothing was sent.
    Unsupported {
        /// The lock.
        name: LockName,
        /// Name of the backend.
        backend: &'static str,
        /// The missing ability.
        what: &'static str,
    },
    /// The client was shut down.
    Closed {
        /// The lock.
        name: LockName,
    },
    /// The runtime of the client's two tasks does not run them, so that nothing would be renewed or released. Nothing
    /// was sent. Name a runtime that lives as long as the client by
    /// [`ClientOptions::runtime`](crate::ClientOptions::runtime).
    RuntimeStopped {
        /// The lock.
        name: LockName,
        /// The time for which the tasks have not run; `None` if the runtime has ended.
        still_for: Option<Duration>,
    },
    /// The lock's place in the store holds something that no client of locks has written (C49). Waiting would not
    /// help, so this error comes at once, whatever the request's wait.
    NotALock {
        /// The lock.
        name: LockName,
        /// The thing that is there, such as "a key of type list".
        found: String,
    },
    /// The request is for one of a number of permits, and the lock is held as one of another number (C33): the number
    /// is that of the present holders. Only a request that does not wait gets this error. One that waits takes its
    /// place in the queue until no hold with the other number is left, so that a deploy can change the number.
    Conflict {
        /// The lock.
        name: LockName,
        /// Number of permits of the lock, by the request.
        asked: u16,
        /// Number of permits of the lock, by its holders.
        held: u16,
    },
    /// A part of a listing could not be read, as from a server that did not answer.
    Incomplete {
        /// The locks that were read, as a listing shows them.
        held: Vec<LockState>,
        /// Names what was not read, with the reasons.
        source: BackendError,
    },
    /// The backend could not be reached, or refused.
    Backend {
        /// The operation that failed.
        operation: &'static str,
        /// The lock, if the operation was about one.
        name: Option<LockName>,
        /// Error of the backend.
        source: BackendError,
    },
}

impl LockError {
    /// Returns true if the lock was not acquired because others have it: [`NotAcquired`](Self::NotAcquired), and
    /// [`Timeout`](Self::Timeout) with a contention.
    pub fn is_busy(&self) -> bool {
        self.contention().is_some()
    }

    /// Returns the known state of the other clients.
    pub(crate) fn contention(&self) -> Option<&Contention> {
        match self {
            Self::NotAcquired { contention, .. } => Some(contention),
            Self::Timeout { contention, .. } => contention.as_ref(),
            _ => None,
        }
    }

    /// Returns true if a hold ended before its holder ended it: [`Lost`](Self::Lost).
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Lost { .. })
    }

    /// Returns true if the failure of the backend may be over soon: a [`Backend`](Self::Backend) or
    /// [`Incomplete`](Self::Incomplete) error whose source [says so](BackendError::is_transient), and a
    /// [`Timeout`](Self::Timeout) without an answer. Also if the runtime of the client's tasks is late
    /// ([`RuntimeStopped`](Self::RuntimeStopped)), and has not ended.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Backend { source, .. } | Self::Incomplete { source, .. } => source.is_transient(),
            Self::Timeout { contention, .. } => contention.is_none(),
            Self::RuntimeStopped { still_for, .. } => still_for.is_some(),
            _ => false,
        }
    }

    /// Returns the same error, with the contention that was `seen` if it has none.
    pub(crate) fn or_seen(self, seen: Option<Contention>) -> Self {
        match self {
            Self::Timeout { name, waited, contention } => {
                Self::Timeout { name, waited, contention: contention.or(seen) }
            }
            error => error,
        }
    }

    /// Returns the error of a wait that took `waited` in all.
    pub(crate) fn after(self, waited: Duration) -> Self {
        match self {
            Self::Timeout { name, contention, .. } => Self::Timeout { name, waited, contention },
            error => error,
        }
    }

    /// The backend failed at `operation`, on the lock `name` if it was about one.
    pub(crate) fn backend(
        operation: &'static str,
        name: Option<&LockName>,
        source: BackendError,
    ) -> Self {
        // C49: every operation reports a foreign key in the same way.
        if let (Some(name), Some(found)) = (name, source.found()) {
            return Self::NotALock { name: name.clone(), found: found.to_owned() };
        }
        if let Some(held) = source.held() {
            return Self::Incomplete { held: held.to_vec(), source };
        }
        // C1: a name that is too long together with its prefix.
        if let Some(invalid) = source.cause().and_then(|cause| cause.downcast_ref::<InvalidInput>())
            && invalid.kind() == InputKind::Name
        {
            return Self::Invalid(invalid.clone());
        }
        Self::Backend { operation, name: name.cloned(), source }
    }
}

const ATTACHED: &str =
    "is held under another guard of this client: use that one, or detach it first";
const UNFENCED: &str = "is evicted, but the fence does not keep it out yet";
const NO_LOCK: &str = "is in its place, which no client of locks has written: remove it if nobody \
     needs it, or choose another name or a prefix (`?prefix=` in the URL)";
const NOT_RENEWED: &str = "so the lock would not be renewed: set a runtime that lives as long as \
     the client by `ClientOptions::runtime`";

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(invalid) => invalid.fmt(f),
            Self::Config { message } => f.write_str(message),
            Self::NotAcquired { name, contention } => {
                write!(f, "lock \"{name}\" was not acquired: {contention}")
            }
            Self::Timeout { name, waited, contention } => {
                let seen = contention.as_ref().map(Contention::to_string);
                let seen = seen.as_deref().unwrap_or("the server gave no useful answer");
                write!(f, "lock \"{name}\" was not acquired within {waited:.1?}: {seen}")
            }
            Self::Lost { name, reason, source } => {
                write!(f, "lock \"{name}\" is lost: {reason}")?;
                source.iter().try_for_each(|error| write!(f, ": {error}"))
            }
            Self::AlreadyAttached { name } => write!(f, "lock \"{name}\" {ATTACHED}"),
            Self::Unfenced { name, source } => {
                write!(f, "the holder of lock \"{name}\" {UNFENCED}: {source}")
            }
            Self::Unrecorded { name, occurrence: run, source } => {
                write!(
                    f,
                    "occurrence \"{run}\" of lock \"{name}\" ran, and may not be recorded: {source}"
                )
            }
            Self::Unsupported { name, backend, what } => {
                write!(f, "lock \"{name}\": {backend} cannot {what}")
            }
            Self::Closed { name } => {
                write!(f, "lock \"{name}\" cannot be used: the client was shut down")
            }
            Self::RuntimeStopped { name, still_for } => runtime_stopped(f, name, *still_for),
            Self::NotALock { name, found } => {
                write!(f, "lock \"{name}\" cannot be used: {found} {NO_LOCK}")
            }
            Self::Conflict { name, asked, held } => conflict(f, name, *asked, *held),
            Self::Incomplete { held, source } => {
                write!(f, "the listing of {} locks is incomplete: {source}", held.len())
            }
            Self::Backend { operation, name: Some(name), source } => {
                write!(f, "cannot {operation} lock \"{name}\": {source}")
            }
            Self::Backend { operation, name: None, source } => {
                write!(f, "cannot {operation}: {source}")
            }
        }
    }
}

fn runtime_stopped(
    f: &mut fmt::Formatter<'_>,
    name: &LockName,
    still_for: Option<Duration>,
) -> fmt::Result {
    let still = still_for.map(|span| format!("has not run them for {span:.1?}"));
    let still = still.as_deref().unwrap_or("has ended");
    write!(
        f,
        "lock \"{name}\" was not acquired: the runtime of this client's tasks {still}, {NOT_RENEWED}"
    )
}

fn conflict(f: &mut fmt::Formatter<'_>, name: &LockName, asked: u16, held: u16) -> fmt::Result {
    write!(
        f,
        "lock \"{name}\" was not acquired: its holders count {held} permits, and the request "
    )?;
    write!(f, "counts {asked}: use the same number everywhere")
}

/// `Display` has the whole cause, so there is no source.
impl Error for LockError {}

impl From<InvalidInput> for LockError {
    fn from(invalid: InvalidInput) -> Self {
        Self::Invalid(invalid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Outcome;

    fn failed(source: BackendError) -> LockError {
        LockError::backend("acquire", LockName::new("a").ok().as_ref(), source)
    }

    #[test]
    fn c32_an_error_tells_its_whole_cause_in_one_line() {
        let driver = std::io::Error::other("connection\n  refused");
        let error = failed(BackendError::transient("redis", Outcome::NotApplied, "no way", driver));
        assert_eq!(
            error.to_string(),
            "cannot acquire lock \"a\": redis: no way: connection refused"
        );
        assert!(error.source().is_none(), "a chain would say it twice");
        let LockError::Backend { source, .. } = &error else { panic!("{error}") };
        assert!(source.cause().is_some_and(|cause| cause.is::<std::io::Error>()));
    }

    #[test]
    fn c49_what_is_no_lock_is_named_with_the_lock_and_the_remedy() {
        let error = failed(BackendError::not_a_lock("redis", "a key of type list"));
        let LockError::NotALock { name, found } = &error else { panic!("{error:?}") };
        assert_eq!((name.as_str(), &**found), ("a", "a key of type list"));
        let text = error.to_string();
        for part in ["lock \"a\"", "a key of type list", "another name", "?prefix="] {
            assert!(text.contains(part), "{text}");
        }
        assert!(!error.is_busy() && !error.is_lost() && !error.is_transient());
    }

    #[test]
    fn c14_busy_lost_and_transient_are_told_apart() {
        let name = LockName::new("a").expect("a name");
        let busy = LockError::NotAcquired { name: name.clone(), contention: Contention::unknown() };
        let lost = LockError::Lost { name, reason: LostReason::Expired, source: None };
        let silent = failed(BackendError::no_answer("redis", Duration::from_secs(2)));
        let refused = failed(BackendError::refusal("redis", "no rights"));
        let name = LockName::new("a").expect("a name");
        let late =
            LockError::RuntimeStopped { name: name.clone(), still_for: Some(Duration::ZERO) };
        let ended = LockError::RuntimeStopped { name, still_for: None };
        let told = [busy, lost, silent, refused, late, ended]
            .map(|error| (error.is_busy(), error.is_lost(), error.is_transient()));
        let expected = [
            (true, false, false),
            (false, true, false),
            (false, false, true),
            (false, false, false),
            (false, false, true),
            (false, false, false),
        ];
        assert_eq!(told, expected);
    }
}
