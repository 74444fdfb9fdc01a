//! The error of a backend that cannot answer.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::LockState;

/// A boxed error of a backend's own kind.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Fate of a request that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The server did not carry it out, and will not.
    NotApplied,
    /// The server may have carried it out, or may still do so.
    Unknown,
}

/// The error of a backend that cannot answer.
///
/// It says whether the request [may have been carried out](BackendError::outcome) and whether
/// [a retry may help](BackendError::is_transient). Its text has the whole cause, in one line.
#[derive(Clone, Debug)]
pub struct BackendError {
    backend: &'static str,
    context: String,
    outcome: Outcome,
    transient: bool,
    source: Option<Arc<dyn Error + Send + Sync>>,
    reason: Option<Box<Reason>>,
}

/// A failure for which the client has its own error.
#[derive(Clone, Debug)]
enum Reason {
    NotALock(String),
    Incomplete(Vec<LockState>),
}

impl BackendError {
    /// A temporary failure: the server is away, busy or loading. A retry may help.
    pub fn transient(
        backend: &'static str,
        outcome: Outcome,
        context: impl Into<String>,
        source: impl Into<BoxError>,
    ) -> Self {
        Self { transient: true, ..Self::permanent(backend, outcome, context, source) }
    }

    /// A refusal: wrong password, missing rights. A retry will not help.
    pub fn permanent(
        backend: &'static str,
        outcome: Outcome,
        context: impl Into<String>,
        source: impl Into<BoxError>,
    ) -> Self {
        let (context, source) = (context.into(), Some(source.into().into()));
        Self { backend, context, outcome, transient: false, source, reason: None }
    }

    /// Refuses a late request of a withdrawn claim (C19).
    pub fn withdrawn(backend: &'static str) -> Self {
        Self::refusal(backend, "the claim was withdrawn")
    }

    /// A refusal without a driver's error: nothing was carried out, and a retry will not help.
    pub fn refusal(backend: &'static str, context: impl Into<String>) -> Self {
        let (context, outcome) = (context.into(), Outcome::NotApplied);
        Self { backend, context, outcome, transient: false, source: None, reason: None }
    }

    /// A refusal: the lock's place in the store holds something that no client of locks has written (C49). `found`
    /// names it, as in "a key of type list".
    ///
    /// A client turns it into [`LockError::NotALock`](crate::LockError::NotALock), and does not wait.
    pub fn not_a_lock(backend: &'static str, found: impl Into<String>) -> Self {
        let found: String = found.into();
        let context = format!("{found} is in the place of the lock");
        let reason = Some(Box::new(Reason::NotALock(found)));
        Self { reason, ..Self::refusal(backend, context) }
    }

    /// A part of a listing could not be read, as from a server that does not answer, for the reasons in `missing`.
    /// `held` are the locks of the rest. A retry may help if it may help for one of the reasons.
    ///
    /// A client turns it into [`LockError::Incomplete`](crate::LockError::Incomplete).
    pub fn incomplete(
        backend: &'static str,
        held: Vec<LockState>,
        missing: &[BackendError],
    ) -> Self {
        let reasons: Vec<String> = missing.iter().map(ToString::to_string).collect();
        let context = format!("a part was not read: {}", reasons.join("; "));
        let transient = missing.iter().any(Self::is_transient);
        let reason = Some(Box::new(Reason::Incomplete(held)));
        Self { reason, transient, ..Self::refusal(backend, context) }
    }

    /// No answer came within `limit`. The request may have been carried out.
    pub fn no_answer(backend: &'static str, limit: Duration) -> Self {
        // C15: silence is an unknown outcome, never a "no".
        let context = format!("no answer within {limit:?}");
        let (outcome, transient) = (Outcome::Unknown, true);
        Self { backend, context, outcome, transient, source: None, reason: None }
    }

    /// The backend's own code panicked. The request may have been carried out.
    pub(crate) fn panicked(backend: &'static str, text: &str) -> Self {
        let context = format!("the backend panicked: {}", one_line(text));
        let (outcome, transient) = (Outcome::Unknown, true);
        Self { backend, context, outcome, transient, source: None, reason: None }
    }

    /// Adds the server to the error: its scheme, hosts and ports, as
    /// [`UrlParameters::shown`](crate::backend::UrlParameters::shown) returns them. The
    /// same host is not named twice.
    #[must_use]
    pub fn at(mut self, place: &str) -> Self {
        let told = match self.context.split_once(": ") {
            Some((known, rest)) if place.rsplit("//").next() == Some(known) => rest,
            _ => &self.context,
        };
        self.context = format!("{place}: {told}");
        self
    }

    /// Returns the name of the backend.
    pub fn backend(&self) -> &'static str {
        self.backend
    }

    /// Returns the fate of the request.
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// Joins the errors of a request that failed twice. If the outcome of the earlier try is unknown, the joined
    /// outcome is unknown, even if the later try certainly was not carried out (C15).
    pub(crate) fn told_after(self, earlier: Option<Self>) -> Self {
        match earlier {
            Some(earlier)
                if earlier.outcome == Outcome::Unknown && self.outcome == Outcome::NotApplied =>
            {
                earlier
            }
            Some(_) | None => self,
        }
    }

    /// Marks the outcome as unknown, since the request, or an earlier try of it, may have been carried out (C15).
    pub fn of_unknown_outcome(self) -> Self {
        Self { outcome: Outcome::Unknown, ..self }
    }

    /// Returns the name of the thing in the lock's place, if this error is [no lock](Self::not_a_lock).
    pub fn found(&self) -> Option<&str> {
        match self.reason.as_deref() {
            Some(Reason::NotALock(found)) => Some(found),
            _ => None,
        }
    }

    /// Returns the locks that were read, if this error is an [incomplete](Self::incomplete) listing.
    pub fn held(&self) -> Option<&[LockState]> {
        match self.reason.as_deref() {
            Some(Reason::Incomplete(held)) => Some(held),
            _ => None,
        }
    }

    /// Renames the locks of an [incomplete](Self::incomplete) listing, for callers that know them by other names.
    pub(crate) fn renaming(
        mut self,
        renamed: impl FnOnce(Vec<LockState>) -> Vec<LockState>,
    ) -> Self {
        if let Some(Reason::Incomplete(held)) = self.reason.as_deref_mut() {
            *held = renamed(std::mem::take(held));
        }
        self
    }

    /// Returns the driver's own error, if there is one. The text of this error already includes it.
    pub fn cause(&self) -> Option<&(dyn Error + Send + Sync + 'static)> {
        self.source.as_deref()
    }

    /// Returns true if the same request may succeed when it is sent again.
    pub fn is_transient(&self) -> bool {
        self.transient
    }
}

impl fmt::Display for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.backend, self.context)?;
        let mut told = self.context.clone();
        let mut cause = self.cause().map(|cause| cause as &dyn Error);
        while let Some(error) = cause {
            let text = one_line(&error.to_string());
            // Drivers often repeat the text of their source in their own.
            if !told.contains(&text) {
                write!(f, ": {text}")?;
                told += &text;
            }
            cause = error.source();
        }
        Ok(())
    }
}

/// Joins the lines of a driver's text.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `Display` has the whole cause, so there is no source.
impl Error for BackendError {}
