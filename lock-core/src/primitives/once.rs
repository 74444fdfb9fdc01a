//! A job that several processes start at about the same time, and one runs.

use std::convert::Infallible;
use std::time::Duration;

use tokio::time::Instant;

use crate::client::{Finished, LockClient};
use crate::guard::LockGuard;
use crate::model::{
    Contention, FencingToken, InputKind, InvalidInput, LockError, LockName, LockRequest,
    Occurrence, Record, Ttl, Wait,
};

/// A record is kept for a week unless it is said otherwise.
const REMEMBER: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Outcome of a run once: see [`LockClient::once`].
#[derive(Debug)]
#[must_use = "the work may not have run"]
pub enum OnceOutcome<T> {
    /// The work ran here.
    Ran(T),
    /// Another has the lock: it runs the job now, or ran it less than [`at_least`](Once::at_least) ago. The
    /// label says who that is, and the TTL left until when the lock is held unless it is renewed.
    Skipped(Contention),
    /// This [occurrence](Once::occurrence) ran before and ended well, under this token.
    Done(FencingToken),
}

impl<T> OnceOutcome<T> {
    /// Returns the value of the work if it ran here.
    pub fn ran(self) -> Option<T> {
        match self {
            Self::Ran(value) => Some(value),
            Self::Skipped(_) | Self::Done(_) => None,
        }
    }

    fn map<U>(self, map: impl FnOnce(T) -> U) -> OnceOutcome<U> {
        match self {
            Self::Ran(value) => OnceOutcome::Ran(map(value)),
            Self::Skipped(contention) => OnceOutcome::Skipped(contention),
            Self::Done(token) => OnceOutcome::Done(token),
        }
    }
}

/// A job that several processes start at about the same time, and one runs: see [`LockClient::once`].
#[derive(Clone, Debug)]
#[must_use = "nothing runs until it is told to"]
pub struct Once {
    client: LockClient,
    request: LockRequest,
    at_least: Option<Duration>,
    occurrence: Option<String>,
    remember: Duration,
}

impl LockClient {
    /// A job that several processes start at about the same time, and one runs: a nightly job that is in the
    /// crontab of each host. It is what ShedLock does, with a fencing token.
    ///
    /// It never waits: who comes second is told so, and does nothing. Under another name it is another job.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
    /// # use lock_core::{LockClient, MemoryBackend, OnceOutcome};
    /// # use std::time::Duration;
    /// # let locks = LockClient::new(MemoryBackend::new());
    /// let nightly = locks.once("nightly").at_least(Duration::from_secs(60)).occurrence("2026-11-21");
    /// match nightly.run(async |held| format!("billed under token {}", held.token())).await? {
    ///     OnceOutcome::Ran(finished) => println!("{}", finished.into_value()?),
    ///     OnceOutcome::Skipped(by) => println!("somebody else has it: {by}"),
    ///     OnceOutcome::Done(token) => println!("done before, under token {token}"),
    /// }
    /// # Ok(()) }
    /// ```
    pub fn once(&self, name: impl AsRef<str>) -> Once {
        let (client, request) = (self.clone(), LockRequest::new(name).wait(Wait::Never));
        Once { client, request, at_least: None, occurrence: None, remember: REMEMBER }
    }
}

impl Once {
    /// Keeps others out for `span` from the start by the server's clock, however short the run is: 10 ms to
    /// 24 h. Hosts whose clocks differ by less do not run the job one after the other. By default it may start
    /// again as soon as it has ended.
    ///
    /// It holds also if the run fails, is cancelled, or the process dies. Before the run starts, the lock is made to
    /// last for this span, by one more request if the TTL is shorter. A lock that is given back earlier stays held by
    /// nobody until the span is over. Only a store that loses its data, or an operator who evicts, lets others in
    /// earlier. Renewals come at the pace of the TTL, so that a loss is noticed within a third of it.
    pub fn at_least(self, span: Duration) -> Self {
        Self { at_least: Some(span), ..self }
    }

    /// Stops renewing `span` after the start, so that a run that hangs loses the lock, and is dropped, at the
    /// latest one TTL later. Within [`at_least`](Self::at_least) the run ends then too, and others are kept out to the
    /// end of that span. By default it is renewed for as long as the work takes.
    pub fn at_most(self, span: Duration) -> Self {
        Self { request: self.request.max_hold(span), ..self }
    }

    /// Sets the occurrence, such as the day that the run is for: 1 to 512 bytes without control characters. A run that
    /// ended well is recorded beside the lock, and a later run of the same occurrence is
    /// [`Done`](OnceOutcome::Done). By default nothing is recorded.
    pub fn occurrence(self, occurrence: impl AsRef<str>) -> Self {
        Self { occurrence: Some(occurrence.as_ref().to_owned()), ..self }
    }

    /// Sets the time for which a run that ended well is remembered: 10 ms to ten years; default 7 days. It serves
    /// with an [`occurrence`](Self::occurrence) alone.
    pub fn remember(self, span: Duration) -> Self {
        Self { remember: span, ..self }
    }

    /// Sets the time for which the server keeps the lock unrenewed; default as for any
    /// [request](LockRequest::ttl). If the process dies, others get in after it, or after
    /// [`at_least`](Self::at_least) from the start if that is later.
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { request: self.request.ttl(ttl), ..self }
    }

    /// Sets the label of the run for those that are skipped; default as for any
    /// [request](LockRequest::label).
    pub fn label(self, label: impl AsRef<str>) -> Self {
        Self { request: self.request.label(label), ..self }
    }

    /// Runs `work`, unless another has the lock or this occurrence is done. To end at all is to end well:
    /// for work that may fail there is [`try_run`](Self::try_run).
    ///
    /// The work is given the guard, for its token. It is dropped if the lock is lost ([`LockGuard::run`]).
    ///
    /// # Errors
    /// As [`try_run`](Self::try_run).
    ///
    /// # Cancel safety
    /// As [`try_run`](Self::try_run).
    pub async fn run<T>(
        self,
        work: impl AsyncFnOnce(&LockGuard) -> T,
    ) -> Result<OnceOutcome<Finished<T>>, LockError> {
        let work = async move |held: &LockGuard| Ok::<T, Infallible>(work(held).await);
        let outcome = self.try_run(work).await?;
        Ok(outcome.map(|Finished { value: Ok(value), hold }| Finished { value, hold }))
    }

    /// Runs `work`, unless another has the lock or this occurrence is done. Work that returns an error has
    /// failed: it is not recorded, and the next one that starts this occurrence runs it. Its error is the
    /// [value](Finished::value).
    ///
    /// Work that has ended is never turned into an error: its value comes back, and apart from it, in
    /// [`Finished::hold`], whether the lock was held to the end ([`LockError::Lost`]: another run may have begun,
    /// and this one is not recorded) and whether the run is recorded, if it is to be
    /// ([`LockError::Unrecorded`]: it may run again).
    ///
    /// # Errors
    /// The work did not begin, except for the last:
    ///
    /// - [`LockError::Invalid`] if the name, the TTL, `at_least`, the label, the occurrence or `remember` is outside its
    ///   limits: nothing was sent.
    /// - [`LockError::Unsupported`] if the backend [cannot](crate::DistributedLock::run_records) keep others out for
    ///   `at_least`, or record an occurrence.
    /// - [`LockError::NotALock`], [`LockError::Backend`], [`LockError::Closed`] as
    ///   [`acquire`](LockClient::acquire).
    /// - [`LockError::Lost`] if the lock was lost before the work ended, and the work was dropped. What it did until
    ///   then stands: let the resource check the token.
    ///
    /// # Cancel safety
    /// If the future is dropped, the work is dropped and not recorded, and the lock is given back in the
    /// background, not before `at_least` is over. If it is dropped after the work has ended, the run may be
    /// recorded or not.
    pub async fn try_run<T, E>(
        self,
        work: impl AsyncFnOnce(&LockGuard) -> Result<T, E>,
    ) -> Result<OnceOutcome<Finished<Result<T, E>>>, LockError> {
        let (occurrence, remember) = (self.occurrence.clone(), self.remember);
        let guard = match self.begin().await? {
            OnceOutcome::Ran(guard) => guard,
            OnceOutcome::Skipped(contention) => return Ok(OnceOutcome::Skipped(contention)),
            OnceOutcome::Done(token) => return Ok(OnceOutcome::Done(token)),
        };
        let value = guard.run_to_end(work(&guard)).await?;
        // C42: a run that failed is not recorded.
        let recorded = match (&value, occurrence) {
            (Ok(_), Some(occurrence)) => guard.record(occurrence, remember).await,
            _ => Ok(()),
        };
        let released = guard.release().await;
        Ok(OnceOutcome::Ran(Finished { value, hold: recorded.and(released) }))
    }

    /// Begins a run that is ended by hand: by giving the guard back. Before that, a run of an occurrence that
    /// ended well is to be [recorded](LockGuard::record).
    ///
    /// It is for work that does not fit into a future. The guard gives the lock back not before `at_least` is
    /// over, also if it is dropped. [`run`](Self::run) and [`try_run`](Self::try_run) do all of it.
    ///
    /// # Errors
    /// As [`try_run`](Self::try_run), but for the last.
    ///
    /// # Cancel safety
    /// If the future is dropped, the lock is not held.
    pub async fn begin(self) -> Result<OnceOutcome<LockGuard>, LockError> {
        let run = Checked::new(self)?;
        // Most that come late find it done, and then take no lock.
        if let Some(token) = run.done().await? {
            return Ok(OnceOutcome::Done(token));
        }
        let guard = match run.client.acquire(run.request.clone()).await {
            Ok(guard) => guard,
            Err(LockError::NotAcquired { contention, .. }) => {
                return Ok(OnceOutcome::Skipped(contention));
            }
            Err(error) => return Err(error),
        };
        let granted = Instant::now();
        // C42: the one that had the lock until now may have recorded it since we looked.
        if let Some(token) = run.done().await? {
            return Ok(OnceOutcome::Done(token));
        }
        if let Some(span) = run.at_least {
            // C41: from here on a crash leaves the lock held for the span.
            guard.keep_out(granted, span).await?;
        }
        Ok(OnceOutcome::Ran(guard))
    }
}

/// A run once, all of whose parts are good.
struct Checked {
    client: LockClient,
    request: LockRequest,
    name: LockName,
    occurrence: Option<Occurrence>,
    at_least: Option<Ttl>,
}

impl Checked {
    fn new(run: Once) -> Result<Self, LockError> {
        let Once { client, request, at_least, occurrence, remember } = run;
        let request = client.complete(request);
        let claim = request.claim()?;
        let at_least = at_least.map(checked_span).transpose()?;
        Record::check_remember(remember)?;
        let name = claim.name;
        let occurrence = occurrence.map(Occurrence::new).transpose()?;
        let backend = client.shared.name();
        let records = client.shared.backend.run_records().is_some();
        if !records && (at_least.is_some() || occurrence.is_some()) {
            let what = "keep others out after a run, or record it";
            return Err(LockError::Unsupported { name, backend, what });
        }
        Ok(Self { client, request, name, occurrence, at_least })
    }

    /// The token of the run that is recorded, if this one has an occurrence.
    async fn done(&self) -> Result<Option<FencingToken>, LockError> {
        let Some(occurrence) = &self.occurrence else { return Ok(None) };
        let shared = &self.client.shared;
        let answer = shared
            .request(async || shared.run_records()?.recorded(&self.name, occurrence).await)
            .await;
        answer
            .map_err(|source| LockError::backend("look for a record of", Some(&self.name), source))
    }
}

/// The span for which others are kept out: as long as a TTL may be.
fn checked_span(span: Duration) -> Result<Ttl, InvalidInput> {
    Ttl::new(span).map_err(|_| {
        let text = format!("others cannot be kept out for at least {span:?}: choose 10 ms to 24 h");
        InvalidInput::new(InputKind::Ttl, text)
    })
}
