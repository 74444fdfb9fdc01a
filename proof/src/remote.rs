//! The backend of a machine: each request goes over the network to the server.

use std::sync::Arc;

use lock_core::backend::{
    Attempt, Changes, Claim, Extension, Record, Recording, RecordsRuns, Release, Renewal,
    Reservation, Reserved, ReservesTokens, WAITER_LIVENESS, WaiterEvent, WaiterEvents,
    WaiterHandle, async_trait,
};
use lock_core::{
    BackendError, Capabilities, DistributedLock, Finding, Holder, LockAdmin, LockName, LockState,
    Occurrence, OwnerId, RecordedRun, Ttl, Whom,
};
use tokio::time::timeout;

use crate::flaw::Flaw;
use crate::network::Link;
use crate::server::Server;

/// A machine's connections to the server.
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    link: Arc<Link>,
    server: Arc<Server>,
}

impl Remote {
    pub(crate) fn new(link: Arc<Link>, server: Arc<Server>) -> Self {
        Self { link, server }
    }

    /// Sends a request about a lock.
    async fn ask<T: Send + 'static>(
        &self,
        what: String,
        act: impl Fn(&Server) -> Result<T, BackendError> + Send + 'static,
    ) -> Result<T, BackendError> {
        let server = self.server.clone();
        self.link.ask(what, move || act(&server)).await
    }

    /// Attempts a claim for a waiter on another machine.
    fn attempt(&self, claim: &Claim, far: Option<&WaiterHandle>) -> Result<Attempt, BackendError> {
        let Some(far) = far else { return self.server.acquire(claim, None) };
        let (near, events) = WaiterHandle::channel();
        let attempt = self.server.acquire(claim, Some(&near));
        if let Ok(Attempt::Busy(_)) = attempt {
            tokio::spawn(self.clone().forward(claim.clone(), events, far.clone()));
        }
        attempt
    }

    /// Forwards a waiter's events. A waiter that was silent for too long counts as dead (C28).
    async fn forward(self, claim: Claim, events: WaiterEvents, far: WaiterHandle) {
        if self.server.world.has(Flaw::PlaceLost) {
            return;
        }
        let is_kept = self.server.world.has(Flaw::SilentWaiterStays);
        let silent_for = if is_kept { Ttl::MAX.as_duration() } else { WAITER_LIVENESS };
        let Ok(mut event) = timeout(silent_for, events.next()).await else { return };
        match &mut event {
            WaiterEvent::Granted(grant) => self.server.granted(&claim, grant),
            WaiterEvent::TryAgain => self.server.sent_away(&claim),
        }
        if !self.link.push().await {
            return;
        }
        self.server.world.note(format_args!("{} is told {event:?}", claim.label));
        match event {
            WaiterEvent::Granted(grant) => far.granted(self.server.as_pushed(grant)),
            WaiterEvent::TryAgain => far.try_again(),
        }
    }
}

/// A request of an acquisition in flight.
struct OnItsWay(Arc<Server>, Claim);

impl OnItsWay {
    fn begin(server: Arc<Server>, claim: Claim) -> Self {
        let (label, name) = (claim.label.as_str(), claim.name.as_str());
        server.world.know(label, name, |asked| asked.on_their_way += 1);
        Self(server, claim)
    }
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        let (label, name) = (self.1.label.as_str(), self.1.name.as_str());
        self.0.world.know(label, name, |asked| asked.on_their_way -= 1);
    }
}

#[async_trait]
impl DistributedLock for Remote {
    fn capabilities(&self) -> Capabilities {
        self.server.memory.capabilities()
    }

    async fn acquire(
        &self,
        claim: &Claim,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        let (this, claim, waiter) = (self.clone(), claim.clone(), waiter.cloned());
        let what = format!("acquire {} {} {}", claim.name, claim.label, claim.owner);
        let on_its_way = OnItsWay::begin(self.server.clone(), claim.clone());
        let act = move || this.attempt(&on_its_way.1, waiter.as_ref());
        self.link.ask(what, act).await
    }

    async fn extend(&self, renewals: &[Renewal]) -> Vec<Result<Extension, BackendError>> {
        let (count, renewals) = (renewals.len(), renewals.to_vec());
        let what = format!("extend {count} of {}", renewals[0].name);
        match self.ask(what, move |server| Ok(server.extend(&renewals))).await {
            Ok(answers) => answers,
            Err(error) => vec![Err(error); count],
        }
    }

    async fn release(&self, name: &LockName, owner: OwnerId) -> Result<Release, BackendError> {
        let (what, name) = (format!("release {name} {owner}"), name.clone());
        let released = self.ask(what, move |server| server.release(&name, owner)).await;
        if self.server.world.has(Flaw::ReleaseUnanswered) {
            std::future::pending::<()>().await;
        }
        released
    }

    async fn withdraw(&self, name: &LockName, owners: &[OwnerId]) -> Result<(), BackendError> {
        let what = format!("withdraw {name} {owners:?}");
        let (name, owners) = (name.clone(), owners.to_vec());
        self.ask(what, move |server| server.withdraw(&name, &owners)).await
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        Some(self)
    }

    fn token_ranges(&self) -> Option<&dyn ReservesTokens> {
        Some(self)
    }

    fn run_records(&self) -> Option<&dyn RecordsRuns> {
        Some(self)
    }
}

#[async_trait]
impl ReservesTokens for Remote {
    async fn release_or_reserve(&self, hold: &Reservation) -> Result<Reserved, BackendError> {
        let (what, hold) = (format!("reserve {} {}", hold.name, hold.owner), hold.clone());
        self.ask(what, move |server| server.release_or_reserve(&hold)).await
    }
}

#[async_trait]
impl RecordsRuns for Remote {
    async fn record(&self, record: &Record) -> Result<Recording, BackendError> {
        let (what, record) = (format!("record {}", record.occurrence), record.clone());
        self.ask(what, move |server| server.record(&record)).await
    }

    async fn runs(
        &self,
        name: &LockName,
        of: Option<&Occurrence>,
    ) -> Result<Vec<RecordedRun>, BackendError> {
        let (name, of) = (name.clone(), of.cloned());
        let what = format!("look for {of:?}");
        self.ask(what, move |server| server.runs(&name, of.as_ref())).await
    }

    async fn forget(&self, name: &LockName, occurrence: &Occurrence) -> Result<bool, BackendError> {
        self.server.memory.forget(name, occurrence).await
    }
}

#[async_trait]
impl LockAdmin for Remote {
    async fn inspect(&self, name: &LockName) -> Result<LockState, BackendError> {
        let (what, name) = (format!("inspect {name}"), name.clone());
        self.ask(what, move |server| Ok(server.told_state(&name))).await
    }

    fn changes(&self, name: &LockName) -> Option<Changes> {
        self.server.memory.changes(name)
    }

    async fn list(&self, prefix: &str, limit: usize) -> Result<Vec<LockState>, BackendError> {
        self.server.memory.list(prefix, limit).await
    }

    async fn evict(&self, name: &LockName, whom: &Whom) -> Result<Vec<Holder>, BackendError> {
        let (what, name, whom) = (format!("evict {name}"), name.clone(), whom.clone());
        self.ask(what, move |server| server.evict(&name, &whom)).await
    }

    async fn doctor(&self, prefix: &str) -> Result<Vec<Finding>, BackendError> {
        self.server.memory.doctor(prefix).await
    }
}
