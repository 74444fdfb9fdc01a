//! How a claim waits for its turn: the one loop that all backends share.

use std::time::Duration;

use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, timeout};
use tracing::debug;

use crate::request::Listener;
use crate::retry::{jittered, pause_after, try_once};
use crate::waker::Woken;
use crate::{
    Attempt, BackendError, Claim, Clock, Contention, DistributedLock, Drift, Grant, Lease,
    LockError, Moment, ServerTime, Wait, Waker, Wakeup,
};

/// A queued waiter looks at the server itself this often, lest a lost message cost it its turn.
/// A backend may take a waiter that was silent for three times as long for dead.
const FALLBACK_POLL: Duration = Duration::from_secs(1);

/// The first pause of a backend that is polled.
const FIRST_POLL: Duration = Duration::from_millis(1);

/// How many request time-outs an endless wait bears with a server that has begun not to answer.
const OUTAGE_BORNE: u32 = 5;

/// How long a plain acquire that failed spends on taking its claim back.
pub(crate) const WITHDRAW_LIMIT: Duration = Duration::from_secs(1);

/// What bounds an acquisition, beside its own wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) request_timeout: Duration,
    pub(crate) drift: Drift,
}

impl Default for Limits {
    fn default() -> Self {
        Self { request_timeout: Duration::from_secs(2), drift: Drift::default() }
    }
}

/// Acquires claims from one backend.
pub(crate) struct Waiting<'a, L: ?Sized> {
    backend: &'a L,
    clock: &'a dyn Clock,
    limits: Limits,
}

impl<'a, L: DistributedLock + ?Sized> Waiting<'a, L> {
    pub(crate) fn new(backend: &'a L, clock: &'a dyn Clock, limits: Limits) -> Self {
        Self { backend, clock, limits }
    }

    /// Tries, and waits as the request says, until the claim is granted.
    ///
    /// `traces` is true for as long as a request of the claim may be known to the server, or still
    /// be on its way: whoever drops this future withdraws the claim then. After a grant it is true
    /// if an earlier request had no answer, and so may come after the release.
    pub(crate) async fn acquire(
        &self,
        claim: &Claim,
        wait: Wait,
        listener: &Listener,
        traces: &mut bool,
    ) -> Result<Lease, LockError> {
        let (waker, mut woken) = Waker::channel();
        let mut progress = Progress::new(wait, self.limits.request_timeout);
        let waker = progress.waits().then_some(&waker);
        let mut in_doubt = false;
        loop {
            let asked = self.clock.now();
            *traces = true;
            match self.ask(claim, waker, progress.end_of_ask()).await {
                Ok(Attempt::Granted(grant)) => match self.lease(claim, &grant, asked) {
                    Some(lease) => {
                        *traces = in_doubt;
                        return Ok(lease);
                    }
                    None => progress.granted_late(&self.limits),
                },
                Ok(Attempt::Busy(seen)) => {
                    *traces = waker.is_some() || in_doubt;
                    listener.tell(&seen);
                    debug!(position = seen.position, ttl_left = ?seen.ttl_left, "busy");
                    progress.busy(asked, seen);
                }
                Err(error) if error.is_transient() => {
                    debug!(%error, "no answer, asking again");
                    in_doubt |= error.outcome() == crate::Outcome::Unknown;
                    progress.failed(error);
                }
                Err(error) => return Err(refused(claim, error)),
            }
            if progress.is_over() {
                return Err(progress.into_error(claim));
            }
            if let Some(grant) = self.woken(&mut woken, &progress).await
                && let Some(lease) = self.pushed_lease(claim, &grant, &progress)
            {
                debug!(token = lease.token.get(), "handed over");
                *traces = in_doubt;
                return Ok(lease);
            }
            if progress.is_over_after_pause() {
                return Err(progress.into_error(claim));
            }
        }
    }

    async fn ask(
        &self,
        claim: &Claim,
        waker: Option<&Waker>,
        end: Instant,
    ) -> Result<Attempt, BackendError> {
        let backend = self.backend.capabilities().backend;
        try_once(end, backend, self.backend.try_acquire(claim, waker)).await
    }

    /// Sleeps until the next look at the server is due, or a message comes; returns a pushed grant.
    async fn woken(&self, woken: &mut Receiver<Woken>, progress: &Progress) -> Option<Grant> {
        let pause = progress.pause(self.backend.capabilities().wakeup);
        match timeout(pause, woken.recv()).await {
            Ok(Some(Woken::Granted(grant))) => Some(grant),
            Ok(Some(Woken::TryAgain) | None) | Err(_) => None,
        }
    }

    /// The lease of a grant that answered a request sent at `asked`; `None` if it came too late.
    fn lease(&self, claim: &Claim, grant: &Grant, asked: Moment) -> Option<Lease> {
        let believed = grant.ttl.min(claim.ttl.as_duration());
        let deadline = asked.after(self.limits.drift.validity(believed));
        (!self.clock.now().has_reached(deadline)).then(|| Lease {
            name: claim.name.clone(),
            owner: claim.owner,
            token: grant.token,
            ttl: claim.ttl,
            granted: grant.ttl,
            deadline,
        })
    }

    /// The lease of a grant that was pushed.
    ///
    /// The server granted it `at − seen` after it answered our last request, and answered that
    /// after we sent it: so the grant is no older than that span, less the drift of the clocks,
    /// after the sending. It is also no younger than its receipt, which bounds what a step of the
    /// server's clock can do. A grant from before that answer was over when the server said "busy".
    fn pushed_lease(&self, claim: &Claim, grant: &Grant, progress: &Progress) -> Option<Lease> {
        let (asked, seen) = progress.last_answer?;
        let passed = grant.at?.0.checked_sub(seen.0)?;
        let granted_at = asked.after(self.limits.drift.validity(passed));
        let received = self.clock.now();
        let since = if received.has_reached(granted_at) { granted_at } else { received };
        self.lease(claim, grant, since)
    }
}

fn refused(claim: &Claim, source: BackendError) -> LockError {
    LockError::Backend { operation: "acquire", name: Some(claim.name.clone()), source }
}

/// What has come of an acquisition so far.
struct Progress {
    wait: Wait,
    request_timeout: Duration,
    started: Instant,
    /// Since when the server does not answer.
    outage: Option<Instant>,
    last_answer: Option<(Moment, ServerTime)>,
    seen: Option<Contention>,
    error: Option<BackendError>,
    late: bool,
    tries: u32,
}

impl Progress {
    fn new(wait: Wait, request_timeout: Duration) -> Self {
        Self {
            wait,
            request_timeout,
            started: Instant::now(),
            outage: None,
            last_answer: None,
            seen: None,
            error: None,
            late: false,
            tries: 0,
        }
    }

    /// Whether a busy lock is waited for at all.
    fn waits(&self) -> bool {
        !matches!(self.wait, Wait::No | Wait::AtMost(Duration::ZERO))
    }

    fn busy(&mut self, asked: Moment, seen: Contention) {
        self.last_answer = seen.at.map(|at| (asked, at));
        let queued_before = self.error.is_none() && !self.late;
        self.tries = if queued_before { self.tries + 1 } else { 0 };
        self.seen = Some(seen);
        (self.error, self.late, self.outage) = (None, false, None);
    }

    fn failed(&mut self, error: BackendError) {
        self.tries = if self.error.is_some() { self.tries + 1 } else { 0 };
        self.no_good_answer(error);
    }

    /// A grant that came after its own deadline is nothing to return; the next answer may be
    /// quicker, and finds the same grant.
    fn granted_late(&mut self, limits: &Limits) {
        self.late = true;
        self.no_good_answer(BackendError::no_answer("server", limits.request_timeout));
    }

    /// An outage begins with the first answer that is missed, not with the last that came: between
    /// them lies a pause, of ours or of the whole process.
    fn no_good_answer(&mut self, error: BackendError) {
        self.error = Some(error);
        let now = Instant::now();
        self.outage.get_or_insert(now.checked_sub(self.request_timeout / 2).unwrap_or(now));
    }

    /// When an acquisition ends that has no better news by then; `None` if that is open.
    fn give_up_at(&self) -> Option<Instant> {
        match self.wait {
            Wait::No | Wait::AtMost(Duration::ZERO) => Some(self.started + self.request_timeout),
            Wait::AtMost(span) => {
                Some(self.started + span.min(crate::Ttl::MAX.as_duration() * 365))
            }
            Wait::Forever => Some(self.outage? + self.request_timeout * OUTAGE_BORNE),
        }
    }

    /// Until when to wait for an answer to a request that is sent now.
    fn end_of_ask(&self) -> Instant {
        let now = Instant::now();
        let end = now + self.request_timeout / 2;
        match self.give_up_at() {
            // After a pause of the process; a whole try is due all the same.
            Some(past) if past <= now && self.wait == Wait::Forever => end,
            Some(give_up_at) => end.min(give_up_at),
            None => end,
        }
    }

    fn is_over(&self) -> bool {
        let busy = self.error.is_none();
        match self.wait {
            Wait::Forever if busy => false,
            _ if busy && !self.waits() => true,
            _ => self.give_up_at().is_some_and(|end| Instant::now() >= end),
        }
    }

    /// Whether it is over after a pause. If that is long ago, the process was paused, and an endless
    /// wait is worth one more try.
    fn is_over_after_pause(&self) -> bool {
        let overslept = self.give_up_at().is_some_and(|end| end.elapsed() >= self.request_timeout);
        self.is_over() && !(overslept && self.wait == Wait::Forever)
    }

    /// How long to sleep before the next look at the server.
    fn pause(&self, wakeup: Wakeup) -> Duration {
        let pause = match (&self.error, wakeup) {
            (Some(_), _) => pause_after(self.tries),
            (None, Wakeup::Push) => jittered(FALLBACK_POLL),
            (None, Wakeup::Poll(longest)) => {
                jittered(FIRST_POLL.saturating_mul(1 << self.tries.min(10)).min(longest))
            }
        };
        // A holder that died releases nothing: its lease ends unannounced.
        let expiry = self.seen.as_ref().and_then(|seen| seen.ttl_left).unwrap_or(pause);
        let left = self.give_up_at().map(|end| end.saturating_duration_since(Instant::now()));
        pause.min(expiry + FIRST_POLL).min(left.unwrap_or(pause))
    }

    fn into_error(self, claim: &Claim) -> LockError {
        let name = claim.name.clone();
        // A last look that our own end cut short says nothing of the server.
        let cut_short = self.seen.is_some() && self.tries == 0 && self.wait != Wait::Forever;
        match (self.error, self.seen) {
            (Some(source), _) if !self.late && !cut_short => refused(claim, source),
            (None, Some(contention)) if self.wait == Wait::No => {
                LockError::NotAcquired { name, contention }
            }
            (_, contention) => {
                LockError::Timeout { name, waited: self.started.elapsed(), contention }
            }
        }
    }
}
