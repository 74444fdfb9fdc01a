//! The request of a caller.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{
    Claim, Contention, InvalidInput, Kind, Label, LockError, LockName, OwnerId, Permits,
    Reentrance, Ttl,
};

/// The wait of an acquisition for its turn (C18, C48).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// One attempt: a lock that is held is [`NotAcquired`](LockError::NotAcquired).
    Never,
    /// Until the span is over, then [`Timeout`](LockError::Timeout), also if it is too short for an
    /// answer of the server. A span of zero is one attempt, and a lock that is held is
    /// [`NotAcquired`](LockError::NotAcquired).
    AtMost(Duration),
    /// Until this moment, then as [`AtMost`](Self::AtMost). A moment in the past is one attempt.
    Until(Instant),
    /// Until the lock is free. It never ends as [`Timeout`](LockError::Timeout).
    Forever,
}

impl Wait {
    /// Returns true if the request waits for a busy lock.
    pub(crate) fn waits(self) -> bool {
        self.span() != Some(Duration::ZERO)
    }

    /// Returns the time to wait from now on; `None` without a bound.
    pub(crate) fn span(self) -> Option<Duration> {
        match self {
            Self::Never => Some(Duration::ZERO),
            Self::AtMost(span) => Some(span),
            Self::Until(deadline) => {
                let now = tokio::time::Instant::now().into_std();
                Some(deadline.saturating_duration_since(now))
            }
            Self::Forever => None,
        }
    }

    /// Returns what is left of a wait that began at `began`. It is never zero if it was not, since a wait of zero
    /// would mean not to wait at all.
    pub(crate) fn rest_since(self, began: tokio::time::Instant) -> Self {
        match self {
            Self::AtMost(span) if !span.is_zero() => {
                Self::AtMost(span.saturating_sub(began.elapsed()).max(Duration::from_nanos(1)))
            }
            Self::Never | Self::AtMost(_) | Self::Until(_) | Self::Forever => self,
        }
    }

    /// Returns the wait from now on; a deadline becomes the remaining span.
    pub(crate) fn starting_now(self) -> Self {
        match self {
            Self::Until(_) => self.span().map_or(self, Self::AtMost),
            Self::Never | Self::AtMost(_) | Self::Forever => self,
        }
    }
}

impl From<Duration> for Wait {
    fn from(span: Duration) -> Self {
        Self::AtMost(span)
    }
}

impl From<Instant> for Wait {
    fn from(deadline: Instant) -> Self {
        Self::Until(deadline)
    }
}

impl From<tokio::time::Instant> for Wait {
    fn from(deadline: tokio::time::Instant) -> Self {
        Self::Until(deadline.into_std())
    }
}

/// The request of one acquisition.
///
/// A name alone is a request: the rest comes from the client's options, or from the defaults, which are an
/// endless wait and a TTL of 30 s. A request is checked only when it is used, so that it can be built in one
/// line. An invalid part is then refused before any I/O.
///
/// ```
/// use std::time::Duration;
/// use lock_core::LockRequest;
///
/// let request = LockRequest::new("stock:42")
///     .ttl(Duration::from_secs(10))
///     .wait(Duration::from_secs(2))
///     .label("web-3");
/// ```
#[derive(Clone, Debug)]
#[must_use = "a request does nothing until a client acquires it"]
pub struct LockRequest {
    name: String,
    ttl: Option<Duration>,
    wait: Option<Wait>,
    label: Option<String>,
    max_hold: Option<Duration>,
    kind: Result<Kind, InvalidInput>,
    reentrance: Option<Reentrance>,
    listener: Listener<Contention>,
}

/// Tells the application about a wait, if it listens.
pub(crate) struct Listener<T>(Option<Arc<Tell<T>>>);

type Tell<T> = dyn Fn(&T) + Send + Sync;

impl<T> Listener<T> {
    pub(crate) fn new(tell: impl Fn(&T) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(tell)))
    }

    /// Returns true if the application listens.
    pub(crate) fn listens(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn tell(&self, news: &T) {
        if let Some(tell) = &self.0 {
            tell(news);
        }
    }
}

impl<T> Default for Listener<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Clone for Listener<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> fmt::Debug for Listener<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "told" } else { "none" })
    }
}

impl LockRequest {
    /// Asks for the lock called `name`.
    pub fn new(name: impl AsRef<str>) -> Self {
        Self {
            name: name.as_ref().to_owned(),
            ttl: None,
            wait: None,
            label: None,
            max_hold: None,
            kind: Ok(Kind::Exclusive),
            reentrance: None,
            listener: Listener::default(),
        }
    }

    /// Sets the time for which the server keeps an unrenewed lease: 10 ms to 24 h. The default is that of the client,
    /// 30 s unless its options say otherwise.
    ///
    /// The TTL bounds how long the others wait when a holder dies.
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { ttl: Some(ttl), ..self }
    }

    /// Sets the wait for the lock: a span, a deadline or a [`Wait`]. The default is that of the client,
    /// [`Wait::Forever`] unless its options say otherwise.
    pub fn wait(self, wait: impl Into<Wait>) -> Self {
        Self { wait: Some(wait.into()), ..self }
    }

    /// Sets the holder's label for observers, up to 128 bytes. The default is that of the client, empty unless its
    /// options say otherwise.
    pub fn label(self, label: impl AsRef<str>) -> Self {
        Self { label: Some(label.as_ref().to_owned()), ..self }
    }

    /// Stops renewing after `span`, so that a holder that hangs loses the lock at the latest one TTL later. By
    /// default there is no bound. The bound stays with the hold when its lease is [detached](crate::LockGuard::detach) and
    /// attached again.
    pub fn max_hold(self, span: Duration) -> Self {
        Self { max_hold: Some(span), ..self }
    }

    /// Asks for a shared hold, as a reader: other shared holds may exist beside it, and no others (C33).
    pub fn shared(self) -> Self {
        Self { kind: Ok(Kind::Shared), ..self }
    }

    /// Asks for `taken` of the `of` permits of the lock, all or none. Holds of up to `of` permits together may exist
    /// beside each other. Each permit is a slot that belongs to this hold alone, 0 to `of` − 1 (C36). A lock has 1 to
    /// [`Permits::MAX`] permits, and a hold takes 1 to `of` of them.
    ///
    /// All users of the lock must give the same `of`. A request that meets holders with another number waits in the
    /// queue until they are gone, and later requests of any number wait behind it (C34): so a deploy can change the
    /// number. After a second of such a wait `tracing` warns. A request that does not wait is [`LockError::Conflict`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
    /// # use lock_core::{LockClient, LockRequest, MemoryBackend};
    /// # let locks = LockClient::new(MemoryBackend::new());
    /// let one = locks.acquire(LockRequest::new("licences").permits(1, 5)).await?;
    /// let two = locks.acquire(LockRequest::new("licences").permits(2, 5)).await?;
    /// assert_eq!((one.slots(), two.slots()), (vec![0], vec![1, 2]));
    /// # Ok(()) }
    /// ```
    pub fn permits(self, taken: u16, of: u16) -> Self {
        Self { kind: Permits::new(taken, of).map(Kind::OneOf), ..self }
    }

    /// Shares one hold with the other requests of `me` for this lock (C43): see [`Reentrance`].
    pub fn reentrant(self, me: &Reentrance) -> Self {
        Self { reentrance: Some(me.clone()), ..self }
    }

    /// Calls `listener` with each answer that the lock is busy, about once a second during the wait. The answer has
    /// the holder and the number of waiters before this one. The number is not known while another task of this client
    /// waits on the server for both. The listener must not block.
    pub fn on_wait(self, listener: impl Fn(&Contention) + Send + Sync + 'static) -> Self {
        Self { listener: Listener::new(listener), ..self }
    }

    /// Returns the request with these values for its unset parts.
    pub(crate) fn or(self, ttl: Option<Duration>, wait: Option<Wait>, label: Option<&str>) -> Self {
        let label = self.label.or_else(|| label.map(str::to_owned));
        Self { ttl: self.ttl.or(ttl), wait: self.wait.or(wait), label, ..self }
    }

    /// Returns the same request for another lock.
    pub(crate) fn for_name(&self, name: &LockName) -> Self {
        Self { name: name.as_str().to_owned(), ..self.clone() }
    }

    pub(crate) fn reentrance(&self) -> Option<&Reentrance> {
        self.reentrance.as_ref()
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn listener(&self) -> &Listener<Contention> {
        &self.listener
    }

    /// Returns the wait from now on: never [`Wait::Until`].
    pub(crate) fn wait_policy(&self) -> Wait {
        self.wait.unwrap_or(Wait::Forever).starting_now()
    }

    pub(crate) fn max_hold_span(&self) -> Option<Duration> {
        self.max_hold
    }

    /// Checks every part, and draws the owner of one acquisition.
    ///
    /// Clients do this themselves; it is public for tests of backends.
    ///
    /// # Errors
    /// [`LockError::Invalid`].
    pub fn claim(&self) -> Result<Claim, LockError> {
        Ok(Claim {
            name: LockName::new(&self.name)?,
            owner: OwnerId::random(),
            ttl: self.ttl.map_or(Ok(Ttl::default()), Ttl::new)?,
            label: Label::new(self.label.as_deref().unwrap_or_default())?,
            kind: self.kind.clone()?,
        })
    }
}

/// The request of a lock by its name alone.
impl<N: AsRef<str>> From<N> for LockRequest {
    fn from(name: N) -> Self {
        Self::new(name)
    }
}
