//! Options of a client, and defaults of its requests.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::retry::LONGEST_TRY;
use crate::model::{Clock, Drift, InputKind, InvalidInput, LockRequest, SystemClock, Ttl, Wait};

#[cfg(feature = "metrics")]
use super::meter::MetricGroup;
#[cfg(feature = "metrics")]
use crate::model::LockName;

const SHORTEST_TIMEOUT: Duration = Duration::from_millis(10);
const LONGEST_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// Options of a client, and defaults of its requests. The defaults suit most.
///
/// ```
/// use std::time::Duration;
/// use lock_core::{ClientOptions, LockClient, MemoryBackend};
///
/// let options = ClientOptions::new()
///     .ttl(Duration::from_secs(10))
///     .wait(Duration::from_secs(2))
///     .label("web-3");
/// let locks = LockClient::with_options(MemoryBackend::new(), options);
/// ```
#[derive(Clone)]
#[must_use = "options do nothing until a client has them"]
pub struct ClientOptions {
    pub(crate) request_timeout: Duration,
    pub(crate) drift: Drift,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ttl: Option<Duration>,
    pub(crate) wait: Option<Wait>,
    pub(crate) label: Option<String>,
    pub(crate) local_hand_off: bool,
    pub(crate) runtime: Option<Handle>,
    #[cfg(feature = "metrics")]
    pub(crate) metric_group: MetricGroup,
}

impl ClientOptions {
    /// Default longest time of a request: 2 s.
    pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

    /// Returns the defaults.
    pub fn new() -> Self {
        Self {
            request_timeout: Self::REQUEST_TIMEOUT,
            drift: Drift::default(),
            clock: Arc::new(SystemClock),
            ttl: None,
            wait: None,
            label: None,
            local_hand_off: true,
            runtime: None,
            #[cfg(feature = "metrics")]
            metric_group: MetricGroup::default(),
        }
    }

    /// Sets the longest time of a request, retries included; default 2 s. Waiting for a lock that others hold is not part
    /// of it. A span outside 10 ms to 1 h is brought into that range.
    pub fn request_timeout(self, span: Duration) -> Self {
        Self { request_timeout: span.clamp(SHORTEST_TIMEOUT, LONGEST_TIMEOUT), ..self }
    }

    /// Sets the margin that is subtracted from each TTL; default 1 % and 2 ms. It covers the difference between
    /// clocks, and gives a holder time to stop its work after a loss. A TTL of which nothing is left is refused.
    pub fn drift(self, drift: Drift) -> Self {
        Self { drift, ..self }
    }

    /// Sets the source of the holder's time; another clock than the system's is for tests.
    pub fn clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    /// Sets the TTL of requests without one; default 30 s. See [`LockRequest::ttl`].
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { ttl: Some(ttl), ..self }
    }

    /// Sets the wait of requests without one; default [`Wait::Forever`]. See [`LockRequest::wait`]. A moment counts as the
    /// span from now until then, for each request.
    pub fn wait(self, wait: impl Into<Wait>) -> Self {
        Self { wait: Some(wait.into().starting_now()), ..self }
    }

    /// Sets the label of requests without one, such as the name of this host; default empty. See
    /// [`LockRequest::label`].
    pub fn label(self, label: impl AsRef<str>) -> Self {
        Self { label: Some(label.as_ref().to_owned()), ..self }
    }

    /// Lets a lock pass from one task of this client to the next without a request, where the backend
    /// [can](crate::DistributedLock::token_ranges); default true.
    ///
    /// A lock that many tasks of one process want becomes many times faster. Each task still has its own guard and
    /// token. While other clients wait, a client keeps a lock for at most 64 passes, and for 20 ms; for its tasks that
    /// were waiting when it got the lock, for a quarter of the time that others held it before: other clients, or
    /// requests of this client that did not wait. Meanwhile an [inspection](crate::Admin::inspect) shows the token and
    /// the label of the first of these tasks. A release that passes the lock on does not ask the server, so it does not
    /// report an eviction just before, and may pass the evicted hold on for that time, under tokens that are less than
    /// that of the next holder. The fence refuses the writes of such holders. Set it to false if each release must be
    /// confirmed by the server. A waiting task that nobody polls at its turn keeps the lock from the others for the rest
    /// of the TTL at the most, and those of its client for 12 s more.
    pub fn local_hand_off(self, passes: bool) -> Self {
        Self { local_hand_off: passes, ..self }
    }

    /// Sets the runtime of the client's two tasks: the renewer, and the janitor that gives back dropped locks.
    ///
    /// The default is the runtime of the first acquisition. **When that runtime ends, nothing is renewed**, and each
    /// hold is lost at its deadline, unless another acquisition starts the tasks again on its own runtime. A program
    /// that acquires on several runtimes, or on one for each test or request, should set one that lives as long as
    /// the client. An acquisition fails with [`LockError::RuntimeStopped`](crate::LockError::RuntimeStopped) if this
    /// runtime has ended, or if the tasks' runtime does not run them, such as a current-thread runtime outside of
    /// `block_on`.
    pub fn runtime(self, runtime: Handle) -> Self {
        Self { runtime: Some(runtime), ..self }
    }

    /// Sets the part of a lock's name that metrics show as the label `group`; default "all". A service may have an
    /// unlimited number of names, and metrics allow only a few values of a label.
    #[cfg(feature = "metrics")]
    pub fn metric_group<G>(self, group: impl Fn(&LockName) -> G + Send + Sync + 'static) -> Self
    where
        G: Into<std::borrow::Cow<'static, str>>,
    {
        Self { metric_group: MetricGroup::new(group), ..self }
    }

    /// Returns the time for which a holder may believe in a hold of `ttl`. Fails if no time is left.
    pub(crate) fn validity(&self, ttl: Ttl) -> Result<Duration, InvalidInput> {
        let (ttl, constant) = (ttl.as_duration(), self.drift.constant);
        Some(self.drift.validity(ttl)).filter(|left| !left.is_zero()).ok_or_else(|| {
            let text = format!(
                "invalid TTL {ttl:?}: it is not longer than the drift of this client, {constant:?}: choose a longer TTL"
            );
            InvalidInput::new(InputKind::Ttl, text)
        })
    }

    /// Returns the time without an answer after which a server counts as silent for a request with this wait (C48).
    pub(crate) fn patience(&self, wait: Wait) -> Duration {
        let limit = self.request_timeout;
        wait.span().map_or(limit, |span| span.min(limit)) / 2
    }

    /// Returns the longest time of one try to ask the server: half of the request time-out, so that a slow server can
    /// answer, or a second if that is longer.
    pub(crate) fn longest_try(&self) -> Duration {
        LONGEST_TRY.max(self.request_timeout / 2)
    }

    /// Returns the request, with the defaults of this client for its unset parts.
    pub(crate) fn complete(&self, request: LockRequest) -> LockRequest {
        request.or(self.ttl, self.wait, self.label.as_deref())
    }
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ClientOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientOptions")
            .field("request_timeout", &self.request_timeout)
            .field("drift", &self.drift)
            .field("ttl", &self.ttl)
            .field("wait", &self.wait)
            .field("label", &self.label)
            .field("local_hand_off", &self.local_hand_off)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C18: a moment as the default wait is a span for each request, or all later requests would be tries.
    #[tokio::test(start_paused = true)]
    async fn c18_a_moment_as_the_default_wait_is_a_span() {
        let span = Duration::from_secs(5);
        let options = ClientOptions::new().wait(tokio::time::Instant::now() + span);
        tokio::time::advance(span * 2).await;
        let request = options.complete(LockRequest::new("a"));
        assert_eq!(request.wait_policy(), Wait::AtMost(span));
    }
}
