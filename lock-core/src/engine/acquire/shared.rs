//! State shared by the clones and guards of one client. It owns everything that changes.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::joint_holds::JointHolds;
use super::local_queue::LocalQueue;
use super::progress::OUTAGE_BORNE;
use super::succession::{Passed, Succession};
use super::tries::Tries;
use crate::backend::{DistributedLock, Extension};
use crate::engine::client::{ClientOptions, Store, restarted};
use crate::engine::give_back::{Janitor, OwnedClaim};
use crate::engine::hold::{Held, HeldLabel, HeldLabels, Hold, Renewer};
use crate::model::{Lease, LockError, LockName, LostReason, Ttl, Wait};
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
    pub(crate) store: Arc<Store>,
    pub(crate) renewer: Arc<Renewer>,
    pub(crate) janitor: Arc<Janitor>,
    pub(crate) local_queue: LocalQueue<Passed>,
    pub(crate) tries: Tries,
    pub(crate) joint_holds: JointHolds,
    pub(crate) held_labels: Arc<HeldLabels>,
    tasks: Mutex<Option<Tasks>>,
    pub(crate) closed: watch::Sender<bool>,
}

/// The renewer and the janitor.
type Tasks = [JoinHandle<()>; 2];

impl Shared {
    pub(crate) fn new(backend: Arc<dyn DistributedLock>, options: ClientOptions) -> Self {
        let store = Arc::new(Store::new(backend, options));
        Self {
            renewer: Arc::new(Renewer::new(store.clone())),
            janitor: Arc::new(Janitor::new(store.clone())),
            store,
            local_queue: LocalQueue::default(),
            tries: Tries::default(),
            joint_holds: JointHolds::default(),
            held_labels: Arc::default(),
            tasks: Mutex::default(),
            closed: watch::channel(false).0,
        }
    }

    /// Admits an acquisition, unless the client was shut down, the runtime of its tasks has ended, or this is a fork.
    pub(crate) fn admit(&self, name: &LockName) -> Result<(), LockError> {
        self.store.refuse_in_fork("acquire", Some(name))?;
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
        let (began, limit) = (Instant::now(), self.store.options.request_timeout);
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

    /// Starts the tasks, or starts them again if their runtime is gone. Returns false if there is no runtime for them.
    pub(crate) fn ensure_tasks(&self) -> bool {
        let mut tasks = locked(&self.tasks);
        let running = |tasks: &Tasks| !tasks.iter().any(JoinHandle::is_finished);
        if tasks.as_ref().is_some_and(running) {
            return true;
        }
        let runtime = self.store.options.runtime.clone().or_else(|| Handle::try_current().ok());
        let Some(runtime) = runtime else { return false };
        tasks.iter().flatten().for_each(JoinHandle::abort);
        let (name, renewer, janitor) =
            (self.store.name(), self.renewer.clone(), self.janitor.clone());
        running(tasks.insert([
            runtime.spawn(restarted(name, "renewer", move || renewer.clone().run())),
            runtime.spawn(restarted(name, "janitor", move || janitor.clone().run())),
        ]))
    }

    /// Extends a hold on behalf of its guard.
    pub(crate) async fn extend_hold(&self, hold: &Arc<Hold>, ttl: Ttl) -> Result<(), LockError> {
        hold.error_if_lost()?;
        self.ensure_tasks();
        hold.extending(ttl);
        let (asked, limit) = (self.store.now(), self.store.options.request_timeout);
        match self.store.extend(&hold.lease(), ttl, limit).await? {
            Extension::Extended(granted) => hold.extended(asked, ttl, granted),
            Extension::Lost => hold.end(LostReason::Evicted),
        }
        self.renewer.look_at(hold);
        hold.error_if_lost()
    }

    /// Starts to hold a fresh lease: it is renewed from now on.
    pub(crate) fn hold(&self, lease: Lease, label: Option<HeldLabel>) -> Result<Held, LockError> {
        let name = lease.name.clone();
        let held = Held::new(Hold::new(lease, self.store.client.clone(), label), &self.renewer);
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

    /// Ends all holds of this client, and waits until the server has ended them.
    pub(crate) async fn shutdown(&self) {
        if !self.store.process.is_this() {
            return;
        }
        self.closed.send_replace(true);
        self.ensure_tasks();
        for hold in self.renewer.unregister_all() {
            // Its deadline may be past, or its guard may be ending it: the first reason counts.
            let _ = hold.lost_reason();
            hold.end(LostReason::Shutdown);
            let lease = hold.lease();
            match hold.lost_reason() {
                // C47: its guard is just giving it back or passing it on.
                Some(LostReason::Released) => continue,
                // C41: it expires on the server.
                _ if hold.keeps_out() => continue,
                // The guard of the hold may live on, and nobody else would refuse a late request.
                Some(LostReason::Evicted) if !lease.unresolved => continue,
                _ => {}
            }
            drop(OwnedClaim::of(&lease, self.janitor.clone()));
        }
        self.local_queue.give_back();
        self.janitor.finish(self.store.options.request_timeout).await;
        // The backend's idle resources have no use any more. If this fails, they expire by themselves.
        let _ = self.store.request(|| self.store.backend.close()).await;
    }

    fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if !self.store.process.is_this() {
            // The connections of the backend are those of the first process.
            return std::mem::forget(self.store.clone());
        }
        self.janitor.close();
        if let Some([renewer, _]) = &*locked(&self.tasks) {
            renewer.abort();
        }
    }
}
