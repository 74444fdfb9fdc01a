//! A sound backend with some operations replaced.

use std::fmt::Debug;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::backend::{
    Attempt, Changes, Claim, Extension, LossWatch, Record, Recording, RecordsRuns, Release,
    Renewal, Reservation, Reserved, ReservesTokens, WaiterHandle,
};
use lock_core::{
    BackendError, Capabilities, DistributedLock, FencingToken, Finding, Holder, Lease, LockAdmin,
    LockName, LockState, MemoryBackend, Occurrence, OwnerId, RecordedRun, Ttl, Whom,
};

use super::claims::LastClaims;

/// Answer to an attempt to acquire.
pub(super) type Tried = Result<Attempt, BackendError>;

/// Answer to a release.
pub(super) type Released = Result<Release, BackendError>;

/// Answer to a withdrawal.
pub(super) type Withdrawn = Result<(), BackendError>;

/// Answer to a listing.
pub(super) type Listed = Result<Vec<LockState>, BackendError>;

/// The holders whose holds an eviction ended.
pub(super) type Evicted = Result<Vec<Holder>, BackendError>;

/// Answer to one renewal.
pub(super) type ExtensionResult = Result<Extension, BackendError>;

/// The waiter to wake, if any.
pub(super) type Waiter<'a> = Option<&'a WaiterHandle>;

/// The backend for all operations that are not replaced, and the claims that it does not show.
#[derive(Debug, Default)]
pub(super) struct Sound {
    backend: MemoryBackend,
    pub(super) claims: LastClaims,
}

impl Sound {
    /// Returns the token of `owner`, if it holds the lock.
    pub(super) async fn own_token(
        &self,
        name: &LockName,
        owner: OwnerId,
    ) -> Result<Option<FencingToken>, BackendError> {
        let holders = self.backend.inspect(name).await?.holders;
        // An inspection shows the first digits of the owner id.
        let is_own = |holder: &Holder| holder.owner.as_deref() == Some(&owner.to_string());
        Ok(holders.into_iter().find(is_own).and_then(|holder| holder.token))
    }
}

impl Deref for Sound {
    type Target = MemoryBackend;

    fn deref(&self) -> &MemoryBackend {
        &self.backend
    }
}

/// Differences of a broken backend from the sound one: it replaces some of these operations.
#[async_trait]
pub(super) trait Flaw: Debug + Send + Sync + 'static {
    /// Called at the begin of each call.
    fn begin(&self) {}

    async fn acquire(&self, sound: &Sound, claim: &Claim, waiter: Waiter<'_>) -> Tried {
        sound.acquire(claim, waiter).await
    }

    async fn extend(&self, sound: &Sound, renewals: &[Renewal]) -> Vec<ExtensionResult> {
        sound.extend(renewals).await
    }

    async fn release(&self, sound: &Sound, name: &LockName, owner: OwnerId) -> Released {
        sound.release(name, owner).await
    }

    /// Releases, so that a flaw of releases shows here too.
    async fn release_or_reserve(
        &self,
        sound: &Sound,
        hold: &Reservation,
    ) -> Result<Reserved, BackendError> {
        self.release(sound, &hold.name, hold.owner).await.map(Reserved::Ended)
    }

    async fn release_after(
        &self,
        sound: &Sound,
        name: &LockName,
        owner: OwnerId,
        delay: Ttl,
    ) -> Released {
        sound.release_after(name, owner, delay).await
    }

    async fn record(&self, sound: &Sound, record: &Record) -> Result<Recording, BackendError> {
        sound.record(record).await
    }

    async fn recorded(
        &self,
        sound: &Sound,
        name: &LockName,
        occurrence: &Occurrence,
    ) -> Result<Option<FencingToken>, BackendError> {
        sound.recorded(name, occurrence).await
    }

    async fn forget(
        &self,
        sound: &Sound,
        name: &LockName,
        occurrence: &Occurrence,
    ) -> Result<bool, BackendError> {
        sound.forget(name, occurrence).await
    }

    async fn withdraw(&self, sound: &Sound, name: &LockName, owners: &[OwnerId]) -> Withdrawn {
        sound.withdraw(name, owners).await
    }

    fn watch(&self, sound: &Sound, lease: &Lease) -> Option<LossWatch> {
        sound.watch(lease)
    }

    async fn inspect(&self, sound: &Sound, name: &LockName) -> Result<LockState, BackendError> {
        sound.inspect(name).await
    }

    fn changes(&self, sound: &Sound, name: &LockName) -> Option<Changes> {
        sound.changes(name)
    }

    async fn list(&self, sound: &Sound, prefix: &str, limit: usize) -> Listed {
        sound.list(prefix, limit).await
    }

    async fn evict(&self, sound: &Sound, name: &LockName, whom: &Whom) -> Evicted {
        sound.evict(name, whom).await
    }
}

/// Returns the broken backend with this flaw.
pub(super) fn flawed(flaw: impl Flaw) -> Arc<dyn DistributedLock> {
    Arc::new(Flawed { sound: Sound::default(), flaw })
}

#[derive(Debug)]
struct Flawed<F> {
    sound: Sound,
    flaw: F,
}

impl<F: Flaw> Flawed<F> {
    /// Notes that a call has begun.
    fn begun(&self) -> &Sound {
        self.flaw.begin();
        &self.sound
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<F: Flaw> DistributedLock for Flawed<F> {
    fn capabilities(&self) -> Capabilities {
        self.sound.capabilities()
    }

    async fn acquire(&self, claim: &Claim, waiter: Option<&WaiterHandle>) -> Tried {
        let attempt = self.flaw.acquire(self.begun(), claim, waiter).await?;
        self.sound.claims.note(claim, &attempt);
        Ok(attempt)
    }

    async fn extend(&self, renewals: &[Renewal]) -> Vec<ExtensionResult> {
        self.flaw.extend(self.begun(), renewals).await
    }

    async fn release(&self, name: &LockName, owner: OwnerId) -> Released {
        self.sound.claims.ended_by(name, owner);
        self.flaw.release(self.begun(), name, owner).await
    }

    async fn withdraw(&self, name: &LockName, owners: &[OwnerId]) -> Withdrawn {
        owners.iter().for_each(|owner| self.sound.claims.ended_by(name, *owner));
        self.flaw.withdraw(self.begun(), name, owners).await
    }

    fn server_of(&self, name: &LockName) -> u64 {
        self.sound.server_of(name)
    }

    fn watch(&self, lease: &Lease) -> Option<LossWatch> {
        self.flaw.watch(&self.sound, lease)
    }

    async fn close(&self) -> Result<(), BackendError> {
        self.begun().close().await
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
impl<F: Flaw> ReservesTokens for Flawed<F> {
    async fn release_or_reserve(&self, hold: &Reservation) -> Result<Reserved, BackendError> {
        let answer = self.flaw.release_or_reserve(self.begun(), hold).await?;
        if matches!(answer, Reserved::Ended(_)) {
            self.sound.claims.ended_by(&hold.name, hold.owner);
        }
        Ok(answer)
    }
}

#[async_trait]
impl<F: Flaw> RecordsRuns for Flawed<F> {
    async fn release_after(&self, name: &LockName, owner: OwnerId, delay: Ttl) -> Released {
        self.flaw.release_after(self.begun(), name, owner, delay).await
    }

    async fn record(&self, record: &Record) -> Result<Recording, BackendError> {
        self.flaw.record(self.begun(), record).await
    }

    async fn recorded(
        &self,
        name: &LockName,
        occurrence: &Occurrence,
    ) -> Result<Option<FencingToken>, BackendError> {
        self.flaw.recorded(self.begun(), name, occurrence).await
    }

    async fn runs(&self, name: &LockName) -> Result<Vec<RecordedRun>, BackendError> {
        self.begun().runs(name).await
    }

    async fn forget(&self, name: &LockName, occurrence: &Occurrence) -> Result<bool, BackendError> {
        self.flaw.forget(self.begun(), name, occurrence).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<F: Flaw> LockAdmin for Flawed<F> {
    async fn inspect(&self, name: &LockName) -> Result<LockState, BackendError> {
        self.flaw.inspect(self.begun(), name).await
    }

    fn changes(&self, name: &LockName) -> Option<Changes> {
        self.flaw.changes(&self.sound, name)
    }

    async fn list(&self, prefix: &str, limit: usize) -> Listed {
        self.flaw.list(self.begun(), prefix, limit).await
    }

    async fn list_within(&self, prefix: &str, limit: usize, _time: Duration) -> Listed {
        self.list(prefix, limit).await
    }

    async fn examine(&self, state: &LockState) -> Result<Vec<Finding>, BackendError> {
        self.begun().examine(state).await
    }

    async fn evict(&self, name: &LockName, whom: &Whom) -> Evicted {
        self.sound.claims.ended(name);
        self.flaw.evict(self.begun(), name, whom).await
    }

    async fn doctor(&self, prefix: &str) -> Result<Vec<Finding>, BackendError> {
        self.begun().doctor(prefix).await
    }
}

/// Replaces nothing. It shows that the suite refuses the flaws, and not this wrapper.
#[derive(Debug)]
pub(super) struct Flawless;

#[async_trait]
impl Flaw for Flawless {
    async fn release_or_reserve(
        &self,
        sound: &Sound,
        hold: &Reservation,
    ) -> Result<Reserved, BackendError> {
        sound.release_or_reserve(hold).await
    }
}
