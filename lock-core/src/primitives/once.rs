//! A job that several processes start at about the same time, and only one runs.

use std::convert::Infallible;
use std::time::Duration;

use tokio::time::sleep;

use crate::client::{Finished, LockClient};
use crate::guard::LockGuard;
use crate::model::{
    Contention, FencingToken, InputKind, InvalidInput, LockError, LockName, LockRequest,
    Occurrence, Record, Ttl, Wait,
};

/// Interval at which a run that waits looks for the record of the present one, whose lock may outlast it.
const LOOKS: Duration = Duration::from_secs(1);

/// Default time for which a record is kept: a week.
const REMEMBER: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Outcome of a run once: see [`LockClient::once`].
#[derive(Debug)]
#[must_use = "the work may not have run"]
pub enum OnceOutcome<T> {
    /// The work ran here.
    Ran(T),
    /// Another has the lock, also at the end of the [wait](Once::wait): it runs the job now, or ran it less than
    /// [`at_least`](Once::at_least) ago. The label names it. The TTL left is the time until the lock is free, unless
    /// it is renewed.
    Skipped(Contention),
    /// This [occurrence](Once::occurrence) ran before and succeeded, under this token.
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

/// A job that several processes start at about the same time, and only one runs: see [`LockClient::once`].
#[derive(Clone, Debug)]
#[must_use = "a run does nothing until `run` is called"]
pub struct Once {
    client: LockClient,
    request: LockRequest,
    at_least: Option<Duration>,
    occurrence: Option<String>,
    remember: Duration,
}

impl LockClient {
    /// Returns a job that several processes start at about the same time, and only one runs, such as a nightly job in
    /// the crontab of each host. It is what ShedLock does, with a fencing token.
    ///
    /// A process that comes second is skipped, unless it [waits](Once::wait). Another name is another job.
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
    /// Keeps others out for `span` from the start, on the server's clock, however short the run is: 10 ms to 24 h.
    /// Hosts whose clocks differ by less do not run the job one after the other. By default the job may start again
    /// as soon as it has ended.
    ///
    /// This holds even if the run fails, is cancelled, or the process dies. Before the run starts, the lock is
    /// extended to this span, by one more request if the TTL is shorter. A run that ends within the span sends no
    /// request: the lock stays held until it expires, when the span is over, or at most one TTL later if the run ended
    /// in its last TTL. Others get in earlier only if the store loses its data, or an operator evicts. Renewals come
    /// at the pace of the TTL, so that a loss is noticed within a third of it.
    pub fn at_least(self, span: Duration) -> Self {
        Self { at_least: Some(span), ..self }
    }

    /// Stops renewing `span` after the start. So a run that hangs loses the lock, and is dropped, at the latest one
    /// TTL later. Within [`at_least`](Self::at_least) the run ends then too, but others are kept out to the end of
    /// that span. By default the lock is renewed for as long as the work takes.
    pub fn at_most(self, span: Duration) -> Self {
        Self { request: self.request.max_hold(span), ..self }
    }

    /// Sets the occurrence, such as the day of the run: 1 to 512 bytes without control characters. A run that
    /// succeeded is recorded beside the lock, and a later run of the same occurrence is [`Done`](OnceOutcome::Done).
    /// By default nothing is recorded.
    pub fn occurrence(self, occurrence: impl AsRef<str>) -> Self {
        Self { occurrence: Some(occurrence.as_ref().to_owned()), ..self }
    }

    /// Sets the time for which a successful run is remembered: 10 ms to ten years; default 7 days. It has an effect
    /// only with an [`occurrence`](Self::occurrence).
    pub fn remember(self, span: Duration) -> Self {
        Self { remember: span, ..self }
    }

    /// Waits for the present run, as the pods of a deploy do while one of them migrates: the outcome is
    /// [`Done`](OnceOutcome::Done) within about a second when that run is recorded, also where it keeps the lock for
    /// [`at_least`](Self::at_least). If that run failed, or its process died, this one runs the job. At the end of the
    /// wait the outcome is [`Skipped`](OnceOutcome::Skipped). By default a run does not wait.
    ///
    /// Set an [`occurrence`](Self::occurrence) too: without one nothing is recorded, and each process that waits runs
    /// the job in its turn. Beside `at_least` that is refused as [`LockError::Invalid`]. The looks for a record, one at
    /// each end of the wait, are not part of it; each takes a request time-out at most.
    pub fn wait(self, wait: impl Into<Wait>) -> Self {
        Self { request: self.request.wait(wait), ..self }
    }

    /// Calls `listener` with the known facts about the present run, each time the server has told them to this run,
    /// which [waits](Self::wait): see [`LockRequest::on_wait`].
    pub fn on_wait(self, listener: impl Fn(&Contention) + Send + Sync + 'static) -> Self {
        Self { request: self.request.on_wait(listener), ..self }
    }

    /// Sets the time for which the server keeps the lock unrenewed; default as for any [request](LockRequest::ttl).
    /// If the process dies, others get in after this time, or after [`at_least`](Self::at_least) from the start if
    /// that is later.
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { request: self.request.ttl(ttl), ..self }
    }

    /// Sets the label of the run, which skipped processes see; default as for any [request](LockRequest::label).
    pub fn label(self, label: impl AsRef<str>) -> Self {
        Self { request: self.request.label(label), ..self }
    }

    /// Runs `work`, unless another has the lock or this occurrence is done. Work that ends counts as successful; for
    /// work that may fail use [`try_run`](Self::try_run).
    ///
    /// The work receives the guard, for its token. It is dropped if the lock is lost ([`LockGuard::run`]).
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

    /// Runs `work`, unless another has the lock or this occurrence is done. Work that returns an error has failed: it
    /// is not recorded, and the next process that starts this occurrence runs it. Its error is the
    /// [value](Finished::value).
    ///
    /// Work that has ended never becomes an error: its value is returned. Beside it, [`Finished::hold`] is
    /// [`LockError::Lost`] if the lock was not held to the end: another run may have begun, and this one is not
    /// recorded. It is [`LockError::Unrecorded`] if the record failed: the occurrence may run again.
    ///
    /// # Errors
    /// The work did not begin, except for the last:
    ///
    /// - [`LockError::Invalid`] if the name, the TTL, `at_least`, the label, the occurrence or `remember` is outside its
    ///   limits, or a run waits with `at_least` and without an occurrence: nothing was sent.
    /// - [`LockError::Unsupported`] if the backend [cannot](crate::DistributedLock::run_records) keep others out for
    ///   `at_least`, or record an occurrence.
    /// - [`LockError::NotALock`], [`LockError::Backend`], [`LockError::Closed`] as
    ///   [`acquire`](LockClient::acquire). [`LockError::Timeout`] if the server did not answer during the wait.
    /// - [`LockError::Lost`] if the lock was lost before the work ended, and the work was dropped. Its effects until
    ///   then stay: let the resource check the token.
    ///
    /// # Cancel safety
    /// If the future is dropped, the work is dropped and not recorded. The lock is released in the background, or
    /// left to expire within `at_least`. If the future is dropped after the work has ended, the run may or may not be
    /// recorded.
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

    /// Begins a run that the caller ends by dropping or releasing the guard. A successful run of an occurrence must
    /// be [recorded](LockGuard::record) before that.
    ///
    /// Use it for work that does not fit into a future. The guard leaves the lock to expire until `at_least` is
    /// over, even if it is dropped. [`run`](Self::run) and [`try_run`](Self::try_run) do all of this.
    ///
    /// # Errors
    /// As [`try_run`](Self::try_run), but for the last.
    ///
    /// # Cancel safety
    /// If the future is dropped, the lock is not held.
    pub async fn begin(self) -> Result<OnceOutcome<LockGuard>, LockError> {
        let run = Checked::new(self)?;
        // Most late processes find the occurrence done, and then take no lock.
        if let Some(token) = run.done().await? {
            return Ok(OnceOutcome::Done(token));
        }
        let acquired = tokio::select! {
            biased;
            acquired = run.client.acquire(run.request.clone()) => acquired,
            // C41: a present run that is recorded may keep the lock.
            token = run.recorded(), if run.waits => return Ok(OnceOutcome::Done(token)),
        };
        let guard = match acquired {
            Ok(guard) => guard,
            Err(error) => return run.skipped(error).await,
        };
        // C42: the previous holder may have recorded it since we looked.
        if let Some(token) = run.done().await? {
            return Ok(OnceOutcome::Done(token));
        }
        if let Some(span) = run.at_least {
            // C41: from here on the lock stays held for the span, even after a crash.
            guard.keep_out(span).await?;
        }
        Ok(OnceOutcome::Ran(guard))
    }
}

/// A run once whose parts are valid.
struct Checked {
    client: LockClient,
    request: LockRequest,
    name: LockName,
    occurrence: Option<Occurrence>,
    at_least: Option<Ttl>,
    waits: bool,
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
        let waits = request.wait_policy().waits();
        if waits && at_least.is_some() && occurrence.is_none() {
            return Err(would_run_again().into());
        }
        let backend = client.store().name();
        let records = client.store().run_records().is_ok();
        if !records && (at_least.is_some() || occurrence.is_some()) {
            let what = "keep others out after a run, or record it";
            return Err(LockError::Unsupported { name, backend, what });
        }
        Ok(Self { client, request, name, occurrence, at_least, waits })
    }

    /// Waits until the occurrence is recorded. The acquisition beside it reports a server that does not answer.
    async fn recorded(&self) -> FencingToken {
        loop {
            sleep(LOOKS).await;
            if let Ok(Some(token)) = self.done().await {
                return token;
            }
        }
    }

    /// Returns the outcome of a run that did not get the lock.
    async fn skipped<T>(&self, error: LockError) -> Result<OnceOutcome<T>, LockError> {
        let (LockError::NotAcquired { contention, .. }
        | LockError::Timeout { contention: Some(contention), .. }) = error
        else {
            return Err(error);
        };
        // C41: the present run may have been recorded at the very end of the wait.
        let done = if self.waits { self.done().await? } else { None };
        Ok(done.map_or(OnceOutcome::Skipped(contention), OnceOutcome::Done))
    }

    /// Returns the token of the recorded run, if this run has an occurrence.
    async fn done(&self) -> Result<Option<FencingToken>, LockError> {
        let Some(occurrence) = &self.occurrence else { return Ok(None) };
        let store = self.client.store();
        let answer = store
            .request(async || store.run_records()?.recorded(&self.name, occurrence).await)
            .await;
        answer
            .map_err(|source| LockError::backend("look for a record of", Some(&self.name), source))
    }
}

/// Returns the span for which others are kept out: valid like a TTL.
fn checked_span(span: Duration) -> Result<Ttl, InvalidInput> {
    Ttl::new(span).map_err(|_| {
        let text = format!("others cannot be kept out for at least {span:?}: choose 10 ms to 24 h");
        InvalidInput::new(InputKind::Ttl, text)
    })
}

fn would_run_again() -> InvalidInput {
    let text = "a run that waits, with at_least and without an occurrence, would only run the job twice: \
                set an occurrence, or do not wait";
    InvalidInput::new(InputKind::Occurrence, text)
}
