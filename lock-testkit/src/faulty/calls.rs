//! Calls that meet their faults, or reach the inner backend.

use std::future::pending;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream;
use lock_core::backend::{
    Attempt, Changes, Claim, Extension, LossWatch, Pages, Record, Recording, RecordsRuns, Release,
    Renewal, Reservation, Reserved, ReservesTokens, WaiterHandle,
};
use lock_core::{
    BackendError, Capabilities, DistributedLock, Finding, Holder, Lease, LockAdmin, LockName,
    LockState, Occurrence, Outcome, OwnerId, RecordedRun, Whom,
};

use super::{Faulty, Operation, failure, forbidden, stuck};

/// Returns the ability of the inner backend. This one has only the abilities of the inner one.
fn able<T>(can: Option<T>) -> Result<T, BackendError> {
    can.ok_or_else(|| failure(Outcome::NotApplied))
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl DistributedLock for Faulty {
    fn capabilities(&self) -> Capabilities {
        self.backend.capabilities()
    }

    async fn acquire(
        &self,
        claim: &Claim,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        self.plan().last_claim = Some(claim.clone());
        let answer = async {
            match self.is_stuck(&claim.name)? {
                true => Ok(Attempt::Busy(stuck())),
                false => self.backend.acquire(claim, waiter).await,
            }
        };
        self.call_about(&claim.name, Operation::Acquire, answer).await
    }

    async fn extend(&self, renewals: &[Renewal]) -> Vec<Result<Extension, BackendError>> {
        if renewals.iter().any(|renewal| self.plan().jammed.contains(&renewal.name)) {
            return pending().await;
        }
        let refused = self.plan().unextendable.clone();
        if renewals.iter().any(|renewal| Some(&renewal.name) == refused.as_ref()) {
            let refusal = forbidden("a refusal of the test");
            return renewals.iter().map(|_| Err(refusal.clone())).collect();
        }
        let extended = async { Ok(self.backend.extend(renewals).await) };
        match self.call(Operation::Extend, extended).await {
            Ok(answers) => answers,
            Err(error) => renewals.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn release(&self, name: &LockName, owner: OwnerId) -> Result<Release, BackendError> {
        self.call_about(name, Operation::Release, self.backend.release(name, owner)).await
    }

    async fn withdraw(&self, name: &LockName, owners: &[OwnerId]) -> Result<(), BackendError> {
        self.call_about(name, Operation::Withdraw, self.backend.withdraw(name, owners)).await
    }

    fn server_of(&self, name: &LockName) -> u64 {
        let moved = self.plan().servers.get(name).copied();
        moved.unwrap_or_else(|| self.backend.server_of(name))
    }

    fn watch(&self, lease: &Lease) -> Option<LossWatch> {
        let (name, mut losses) = (lease.name().clone(), self.losses.subscribe());
        let real = self.backend.watch(lease).unwrap_or_else(|| Box::pin(pending()));
        let told = async move {
            if losses.wait_for(|losses| losses.contains(&name)).await.is_err() {
                pending().await
            }
        };
        Some(Box::pin(async move {
            tokio::select! {
                () = real => {}
                () = told => {}
            }
        }))
    }

    async fn close(&self) -> Result<(), BackendError> {
        self.call(Operation::Close, self.backend.close()).await
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        self.backend.admin().map(|_| self as _)
    }

    fn token_ranges(&self) -> Option<&dyn ReservesTokens> {
        self.backend.token_ranges().map(|_| self as _)
    }

    fn run_records(&self) -> Option<&dyn RecordsRuns> {
        self.backend.run_records().map(|_| self as _)
    }
}

#[async_trait]
impl ReservesTokens for Faulty {
    async fn release_or_reserve(&self, hold: &Reservation) -> Result<Reserved, BackendError> {
        let answer = able(self.backend.token_ranges())?.release_or_reserve(hold);
        self.call_about(&hold.name, Operation::Release, answer).await
    }
}

#[async_trait]
impl RecordsRuns for Faulty {
    async fn record(&self, record: &Record) -> Result<Recording, BackendError> {
        let answer = able(self.backend.run_records())?.record(record);
        self.call_about(&record.name, Operation::Record, answer).await
    }

    async fn runs(
        &self,
        name: &LockName,
        of: Option<&Occurrence>,
    ) -> Result<Vec<RecordedRun>, BackendError> {
        let answer = able(self.backend.run_records())?.runs(name, of);
        self.call_about(name, Operation::Runs, answer).await
    }

    async fn forget(&self, name: &LockName, occurrence: &Occurrence) -> Result<bool, BackendError> {
        let answer = able(self.backend.run_records())?.forget(name, occurrence);
        self.call_about(name, Operation::Forget, answer).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl LockAdmin for Faulty {
    async fn inspect(&self, name: &LockName) -> Result<LockState, BackendError> {
        let late = self.plan().late_states.pop_front();
        let answer = async {
            if let Some(state) = late {
                return Ok(state);
            }
            match self.is_stuck(name)? {
                true => Ok(LockState::new(name.clone(), Some(Holder::foreign(None)), None)),
                false => able(self.backend.admin())?.inspect(name).await,
            }
        };
        self.call(Operation::Inspect, answer).await
    }

    fn changes(&self, name: &LockName) -> Option<Changes> {
        match self.plan().is_deaf {
            true => Some(Box::pin(stream::pending())),
            false => self.backend.admin()?.changes(name),
        }
    }

    async fn list(&self, prefix: &str, limit: usize) -> Result<Vec<LockState>, BackendError> {
        self.list_within(prefix, limit, Duration::MAX).await
    }

    async fn list_within(
        &self,
        prefix: &str,
        limit: usize,
        time: Duration,
    ) -> Result<Vec<LockState>, BackendError> {
        let answer = able(self.backend.admin())?.list_within(prefix, limit, time);
        self.call(Operation::List, answer).await
    }

    fn pages(&self, prefix: String, limit: usize) -> Pages<'_> {
        Box::pin(stream::once(async move { self.list(&prefix, limit).await }))
    }

    async fn examine(&self, state: &LockState) -> Result<Vec<Finding>, BackendError> {
        able(self.backend.admin())?.examine(state).await
    }

    async fn evict(&self, name: &LockName, whom: &Whom) -> Result<Vec<Holder>, BackendError> {
        let answer = async {
            match self.is_stuck(name)? {
                true => Ok(self
                    .plan()
                    .foreign
                    .remove(name)
                    .iter()
                    .map(|_| Holder::foreign(None))
                    .collect()),
                false => able(self.backend.admin())?.evict(name, whom).await,
            }
        };
        self.call(Operation::Evict, answer).await
    }

    async fn doctor(&self, prefix: &str) -> Result<Vec<Finding>, BackendError> {
        self.call(Operation::Doctor, able(self.backend.admin())?.doctor(prefix)).await
    }
}
