//! State shared by the clones and guards of one client. It owns everything that changes.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::containment::{contained, restarted};
use super::held::Held;
use super::held_labels::HeldLabels;
use super::hold::Hold;
use super::janitor::{Janitor, Remains};
use super::joint_holds::JointHolds;
use super::local_queue::LocalQueue;
use super::options::ClientOptions;
use super::owned_claim::OwnedClaim;
use super::process::Process;
use super::progress::OUTAGE_BORNE;
use super::renewer::Renewer;
use super::retry;
use super::succession::{Passed, Succession};
use super::telemetry::Telemetry;
use super::tries::Tries;
use super::wait::Waiting;
use crate::backend::{
    DistributedLock, DistributedLockExt, Extension, LockAdmin, RecordsRuns, Release, Reservation,
    Reserved,
};
use crate::model::{
    BackendError, Lease, LockError, LockName, LostReason, Outcome, OwnerId, Renewal, Ttl, Wait,
};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, locked};

/// Parts of a successful acquisition.
#[derive(Debug)]
pub(crate) struct Acquired {
    pub(crate) hold: Held,
    /// Dropped after the hold, which is renewed no more by then.
    pub(crate) claim: OwnedClaim,
    /// The way in which the hold may pass to the next task.
    pub(crate) succession: Option<Succession>,
}

/// State shared by the clones and guards of one client.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) backend: Arc<dyn DistributedLock>,
    pub(crate) options: ClientOptions,
    pub(crate) renewer: Arc<Renewer>,
    pub(crate) janitor: Arc<Janitor>,
    pub(crate) local_queue: LocalQueue<Passed>,
    pub(crate) tries: Tries,
    pub(crate) joint_holds: JointHolds,
    pub(crate) held_labels: Arc<HeldLabels>,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) process: Process,
    tasks: Mutex<Option<Tasks>>,
    pub(crate) closed: watch::Sender<bool>,
}

#[derive(Debug)]
struct Tasks {
    renewer: JoinHandle<()>,
    janitor: JoinHandle<()>,
}

impl Shared {
    pub(crate) fn new(backend: Arc<dyn DistributedLock>, options: ClientOptions) -> Self {
        let telemetry = Arc::new(Telemetry::new(backend.capabilities().backend, &options));
        let renewer = Renewer::new(backend.clone(), options.clock.clone(), telemetry.clone());
        let renewer = Arc::new(renewer);
        let longest_try = options.longest_try();
        let janitor = Arc::new(Janitor::new(backend.clone(), telemetry.clone(), longest_try));
        let (local_queue, joint_holds) = (LocalQueue::default(), JointHolds::default());
        let (tasks, (closed, _)) = (Mutex::default(), watch::channel(false));
        Self {
            backend,
            options,
            renewer,
            janitor,
            local_queue,
            tries: Tries::default(),
            joint_holds,
            held_labels: Arc::default(),
            telemetry,
            process: Process::current(),
            tasks,
            closed,
        }
    }

    /// Refuses a call in a fork of the client's process, before it locks a mutex or sleeps: the thread that would unlock
    /// the mutex, or drives the timer, may not exist there.
    pub(crate) fn refuse_in_fork(
        &self,
        operation: &'static str,
        name: Option<&LockName>,
    ) -> Result<(), LockError> {
        let refused = |source| LockError::backend(operation, name, source);
        self.process.check(self.name()).map_err(refused)
    }

    /// Admits an acquisition, unless the client was shut down, the runtime of its tasks has ended, or this is a fork.
    pub(crate) fn admit(&self, name: &LockName) -> Result<(), LockError> {
        self.refuse_in_fork("acquire", Some(name))?;
        if self.is_closed() {
            return Err(LockError::Closed { name: name.clone() });
        }
        match self.ensure_tasks() {
            true => Ok(()),
            false => Err(LockError::RuntimeStopped { name: name.clone(), still_for: None }),
        }
    }

    /// Checks that the runtime of the tasks runs them: else nothing would be renewed. Returns the rest of the wait.
    ///
    /// A busy runtime has half a request time-out to run them for a request that does not wait, and as long as a silent
    /// server for a request that does. A shorter wait ends before.
    pub(crate) async fn driven(&self, name: &LockName, wait: Wait) -> Result<Wait, LockError> {
        if self.renewer.ran_lately() {
            return Ok(wait);
        }
        let (began, limit) = (Instant::now(), self.options.request_timeout);
        let grace = if wait.waits() { limit * OUTAGE_BORNE } else { limit / 2 };
        let span = wait.span().filter(|span| !span.is_zero());
        let within = span.map_or(grace, |span| span.min(grace));
        match timeout(within, self.renewer.runs()).await {
            Ok(()) => Ok(wait.rest_since(began)),
            Err(_) if within == grace => {
                let still_for = Some(self.renewer.still_for());
                Err(LockError::RuntimeStopped { name: name.clone(), still_for })
            }
            Err(_) => {
                Err(LockError::Timeout { name: name.clone(), waited: within, contention: None })
            }
        }
    }

    /// Returns true if there is a runtime for the tasks.
    pub(crate) fn has_runtime(&self) -> bool {
        self.options.runtime.is_some() || Handle::try_current().is_ok()
    }

    /// Starts the tasks, or starts them again if their runtime is gone. Returns false if the runtime for them is
    /// gone.
    pub(crate) fn ensure_tasks(&self) -> bool {
        let mut tasks = locked(&self.tasks);
        let running = |tasks: &Tasks| !tasks.renewer.is_finished() && !tasks.janitor.is_finished();
        if tasks.as_ref().is_some_and(running) {
            return true;
        }
        if let Some(old) = tasks.take() {
            old.renewer.abort();
            old.janitor.abort();
        }
        let runtime = self.options.runtime.clone().unwrap_or_else(Handle::current);
        let (name, renewer, janitor) = (self.name(), self.renewer.clone(), self.janitor.clone());
        let started = tasks.insert(Tasks {
            renewer: runtime.spawn(restarted(name, "renewer", move || renewer.clone().run())),
            janitor: runtime.spawn(restarted(name, "janitor", move || janitor.clone().run())),
        });
        running(started)
    }

    /// Returns the backend's interface for operators.
    pub(crate) fn admin(&self) -> Result<&dyn LockAdmin, BackendError> {
        let without = || BackendError::refusal(self.name(), "the store cannot list its locks");
        self.backend.admin().ok_or_else(without)
    }

    /// Returns the backend's interface for recorded runs.
    pub(crate) fn run_records(&self) -> Result<&dyn RecordsRuns, BackendError> {
        let without = || BackendError::refusal(self.name(), "the store records no runs");
        self.backend.run_records().ok_or_else(without)
    }

    /// Returns the loop that acquires claims with the options of this client.
    pub(crate) fn waiting(&self) -> Waiting<'_> {
        self.waiting_within(self.options.request_timeout)
    }

    /// Returns the same loop. An acquisition that does not wait, or has no answer, ends within `limit`.
    pub(crate) fn waiting_within(&self, limit: Duration) -> Waiting<'_> {
        Waiting::new(self, limit)
    }

    /// Returns the backend's name, as errors show it.
    pub(crate) fn name(&self) -> &'static str {
        self.backend.capabilities().backend
    }

    /// Asks the backend within the request time-out, with retries.
    pub(crate) async fn request<T, F>(
        &self,
        mut question: impl FnMut() -> F,
    ) -> Result<T, BackendError>
    where
        F: Future<Output = Result<T, BackendError>>,
    {
        let name = self.name();
        self.process.check(name)?;
        let ask = || contained(name, question());
        let options = &self.options;
        retry::within(options.request_timeout, options.longest_try(), name, ask).await
    }

    /// Asks the backend once, for a question that must not be repeated.
    pub(crate) async fn request_once<T>(
        &self,
        answer: impl Future<Output = Result<T, BackendError>>,
    ) -> Result<T, BackendError> {
        let (limit, name) = (self.options.request_timeout, self.name());
        self.process.check(name)?;
        // C17: no try takes longer than its limit.
        let answer = timeout(limit, contained(name, answer)).await;
        answer.unwrap_or_else(|_| Err(BackendError::no_answer(name, limit)))
    }

    /// Extends a lease on the server, within `limit`.
    pub(super) async fn extend(
        &self,
        lease: &Lease,
        ttl: Ttl,
        limit: Duration,
    ) -> Result<Extension, LockError> {
        let (renewal, name) = (Renewal::new(lease, ttl), self.name());
        let ask = || contained(name, self.backend.extend_one(&renewal));
        let answer = retry::within(limit, self.options.longest_try(), name, ask).await;
        answer.map_err(|source| LockError::backend("extend", Some(&lease.name), source))
    }

    /// Extends a hold on behalf of its guard.
    pub(crate) async fn extend_hold(&self, hold: &Arc<Hold>, ttl: Ttl) -> Result<(), LockError> {
        hold.error_if_lost()?;
        self.ensure_tasks();
        hold.extending(ttl);
        let (asked, limit) = (self.options.clock.now(), self.options.request_timeout);
        match self.extend(&hold.lease(), ttl, limit).await? {
            Extension::Extended(granted) => hold.extended(asked, ttl, granted),
            Extension::Lost => hold.end(LostReason::Evicted),
        }
        self.renewer.look_at(hold);
        hold.error_if_lost()
    }

    /// Ends a hold on the server. If a reservation is asked for and made, it keeps the hold for other tasks of this
    /// client.
    ///
    /// A try whose reply was lost may have released the hold, and then the next try finds none. While the lease has
    /// not expired, that counts as our own release.
    pub(crate) async fn release(
        &self,
        lease: &Lease,
        reservation: Option<Reservation>,
    ) -> Result<Reserved, LockError> {
        let (unresolved, reservation) = (AtomicBool::new(false), Mutex::new(reservation));
        let answer = self.request(async || {
            // True until there is an answer, also if this try is given up.
            let unresolved_before = unresolved.swap(true, Ordering::Relaxed);
            // A hold in doubt is released: only the first try asks for a reservation.
            let reservation = locked(&reservation).take();
            let answer = self.ask_to_release(lease, reservation).await;
            let unknown = matches!(&answer, Err(error) if error.outcome() == Outcome::Unknown);
            unresolved.store(unresolved_before || unknown, Ordering::Relaxed);
            match answer {
                // C16: the try whose reply was lost has released it.
                Ok(Reserved::Ended(Release::NotHeld))
                    if unresolved_before && !self.has_expired(lease) =>
                {
                    Ok(Reserved::Ended(Release::Released))
                }
                answer => answer,
            }
        });
        let failed = match answer.await {
            Ok(ended) => return Ok(ended),
            Err(source) => LockError::backend("release", Some(&lease.name), source),
        };
        match self.is_over_in_spite_of(&failed, lease).await {
            true => {
                self.telemetry.release_failed(lease, &failed);
                Ok(Reserved::Ended(Release::Released))
            }
            false => Err(failed),
        }
    }

    /// Returns true if a release that the server refused has still ended the hold, as without the right to wake
    /// waiters. A repeat finds no hold then.
    async fn is_over_in_spite_of(&self, failed: &LockError, lease: &Lease) -> bool {
        let LockError::Backend { source, .. } = failed else { return false };
        if source.is_transient() || source.outcome() != Outcome::Unknown {
            return false;
        }
        let again = self.request_once(self.ask_to_release(lease, None)).await;
        matches!(again, Ok(Reserved::Ended(Release::NotHeld))) && !self.has_expired(lease)
    }

    async fn ask_to_release(
        &self,
        lease: &Lease,
        reservation: Option<Reservation>,
    ) -> Result<Reserved, BackendError> {
        match reservation.zip(self.backend.token_ranges()) {
            Some((reservation, ranges)) => ranges.release_or_reserve(&reservation).await,
            None => self.backend.release(&lease.name, lease.owner).await.map(Reserved::Ended),
        }
    }

    pub(crate) fn has_expired(&self, lease: &Lease) -> bool {
        self.options.clock.now().has_reached(lease.deadline)
    }

    /// Starts to hold a fresh lease: it is renewed from now on.
    pub(crate) fn hold(&self, lease: Lease) -> Result<Held, LockError> {
        let name = lease.name.clone();
        let (options, telemetry) = (&self.options, self.telemetry.clone());
        let (clock, process) = (options.clock.clone(), self.process);
        let hold = Hold::new(lease, clock, options.drift, telemetry, process);
        let held = Held::new(hold, &self.renewer);
        // The client may have been shut down while we asked.
        if self.is_closed() { Err(LockError::Closed { name }) } else { Ok(held) }
    }

    /// Gives back what was just passed on in this client, if the client is shut down: the shutdown may have looked
    /// before.
    pub(crate) fn passed_on(&self) {
        if self.is_closed() {
            self.local_queue.give_back();
        }
    }

    /// Returns a claim that cleans up after itself.
    pub(crate) fn own(&self, name: LockName, owner: OwnerId, kept_for: Duration) -> OwnedClaim {
        OwnedClaim::new(self.janitor.clone(), name, owner, kept_for)
    }

    /// Ends all holds of this client, and waits until the server has ended them.
    pub(crate) async fn shutdown(&self) {
        if !self.process.is_this() {
            return;
        }
        self.closed.send_replace(true);
        self.ensure_tasks();
        for hold in self.renewer.unregister_all() {
            // Its deadline may be past, or its guard may be ending it: the first reason counts.
            let _ = hold.lost_reason();
            hold.end(LostReason::Shutdown);
            let lease = hold.lease();
            let remains = match hold.lost_reason() {
                // C47: its guard is just giving it back or passing it on.
                Some(LostReason::Released) => continue,
                // C41: it expires on the server.
                _ if hold.keeps_out() => continue,
                // The guard of the hold may live on, and nobody else would refuse a late request.
                _ if lease.unresolved => Remains::Claim,
                Some(LostReason::Evicted) => continue,
                _ => Remains::Hold,
            };
            let (owner, kept_for) = (lease.owner, lease.kept_for());
            self.janitor.clear(remains, &lease.name, owner, kept_for);
        }
        self.local_queue.give_back();
        self.janitor.finish(self.options.request_timeout).await;
        // The backend's idle resources have no use any more. If this fails, they expire by themselves.
        let _ = self.request(|| self.backend.close()).await;
    }

    fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if !self.process.is_this() {
            // The connections of the backend are those of the first process.
            return std::mem::forget(self.backend.clone());
        }
        self.janitor.close();
        let tasks = self.tasks.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(tasks) = tasks {
            tasks.renewer.abort();
        }
    }
}
