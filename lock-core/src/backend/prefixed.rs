//! Locks whose names have a prefix in the store.

use std::future::ready;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::{self, StreamExt};

use super::admin::{Changes, LockAdmin, Pages};
use super::answers::{Attempt, Extension, Recording, Release, Reserved};
use super::distributed_lock::{DistributedLock, LossWatch};
use super::extensions::{KeepsFences, RecordsRuns, ReservesTokens};
use super::waiter::WaiterHandle;
use crate::model::{
    BackendError, Capabilities, Claim, Finding, Holder, InvalidInput, Lease, LockName, LockState,
    Occurrence, Outcome, OwnerId, Record, RecordedRun, Renewal, Reservation, Whom,
};

/// The locks of another backend whose names begin with a prefix (C49). Several services, or stages of one service,
/// can share a store, and each sees only its own locks.
///
/// `leasehold::connect` makes one for a URL with `?prefix=shop:`, on every backend. The lock "a" is then the lock
/// "shop:a" of the store. A prefix and a name are together at most 512 bytes.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
/// use lock_core::backend::Prefixed;
/// use lock_core::{LockClient, MemoryBackend};
///
/// let store = MemoryBackend::new();
/// let shop = LockClient::new(Prefixed::new(store.clone(), "shop:")?);
/// let _held = shop.acquire("42").await?;
/// assert!(LockClient::new(store).try_acquire("shop:42").await?.is_none());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Prefixed<B> {
    backend: B,
    prefix: LockName,
}

impl<B> Prefixed<B> {
    /// Wraps `backend` so that only locks whose names begin with `prefix` are used.
    ///
    /// # Errors
    /// [`InvalidInput`] if the prefix is empty, longer than 512 bytes, or holds a control character.
    pub fn new(backend: B, prefix: impl AsRef<str>) -> Result<Self, InvalidInput> {
        Ok(Self { backend, prefix: LockName::new(prefix)? })
    }
}

impl<B: KeepsFences> Prefixed<B> {
    /// The fence of a resource. Its mark has the prefix as well, so that services with different prefixes have
    /// different marks.
    pub fn fence(&self, resource: impl AsRef<str>) -> B::Fence {
        self.backend.fence_of(&format!("{}{}", self.prefix.as_str(), resource.as_ref()))
    }
}

impl<B: DistributedLock> Prefixed<B> {
    /// The name of the lock in the store.
    fn stored(&self, name: &LockName) -> Result<LockName, BackendError> {
        LockName::new(self.stored_start(name.as_str())).map_err(|error| {
            let backend = self.backend.capabilities().backend;
            let context = format!("with the prefix \"{}\" the name is too long", self.prefix);
            BackendError::permanent(backend, Outcome::NotApplied, context, error)
        })
    }

    /// Returns the ability of the inner backend; an error if the inner backend lacks it.
    fn able<T>(&self, can: Option<T>) -> Result<T, BackendError> {
        let backend = self.backend.capabilities().backend;
        can.ok_or_else(|| BackendError::refusal(backend, "the backend cannot do this"))
    }

    fn stored_claim(&self, claim: &Claim) -> Result<Claim, BackendError> {
        Ok(Claim { name: self.stored(&claim.name)?, ..claim.clone() })
    }

    /// Returns the prefix in the store of the locks whose names here start with `start`.
    fn stored_start(&self, start: &str) -> String {
        format!("{}{start}", self.prefix.as_str())
    }

    /// Returns the caller's name of a lock of the store.
    fn known(&self, stored: &LockName) -> Option<LockName> {
        LockName::new(stored.as_str().strip_prefix(self.prefix.as_str())?).ok()
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<B: DistributedLock> DistributedLock for Prefixed<B> {
    fn capabilities(&self) -> Capabilities {
        self.backend.capabilities()
    }

    async fn acquire(
        &self,
        claim: &Claim,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        self.backend.acquire(&self.stored_claim(claim)?, waiter).await
    }

    async fn extend(&self, renewals: &[Renewal]) -> Vec<Result<Extension, BackendError>> {
        let stored = |renewal: &Renewal| {
            Ok(Renewal { name: self.stored(&renewal.name)?, ..renewal.clone() })
        };
        match renewals.iter().map(stored).collect::<Result<Vec<_>, BackendError>>() {
            Ok(renewals) => self.backend.extend(&renewals).await,
            Err(error) => renewals.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn release(&self, name: &LockName, owner: OwnerId) -> Result<Release, BackendError> {
        self.backend.release(&self.stored(name)?, owner).await
    }

    async fn withdraw(&self, name: &LockName, owners: &[OwnerId]) -> Result<(), BackendError> {
        self.backend.withdraw(&self.stored(name)?, owners).await
    }

    /// A name that is too long has no server, and every operation refuses it.
    fn server_of(&self, name: &LockName) -> u64 {
        self.stored(name).map_or(0, |name| self.backend.server_of(&name))
    }

    fn watch(&self, lease: &Lease) -> Option<LossWatch> {
        let name = self.stored(&lease.name).ok()?;
        self.backend.watch(&Lease { name, ..lease.clone() })
    }

    async fn close(&self) -> Result<(), BackendError> {
        self.backend.close().await
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
impl<B: DistributedLock> ReservesTokens for Prefixed<B> {
    async fn release_or_reserve(&self, hold: &Reservation) -> Result<Reserved, BackendError> {
        let hold = Reservation { name: self.stored(&hold.name)?, ..hold.clone() };
        self.able(self.backend.token_ranges())?.release_or_reserve(&hold).await
    }
}

#[async_trait]
impl<B: DistributedLock> RecordsRuns for Prefixed<B> {
    async fn record(&self, record: &Record) -> Result<Recording, BackendError> {
        let record = Record { name: self.stored(&record.name)?, ..record.clone() };
        self.able(self.backend.run_records())?.record(&record).await
    }

    async fn runs(
        &self,
        name: &LockName,
        of: Option<&Occurrence>,
    ) -> Result<Vec<RecordedRun>, BackendError> {
        self.able(self.backend.run_records())?.runs(&self.stored(name)?, of).await
    }

    async fn forget(&self, name: &LockName, occurrence: &Occurrence) -> Result<bool, BackendError> {
        self.able(self.backend.run_records())?.forget(&self.stored(name)?, occurrence).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<B: DistributedLock> LockAdmin for Prefixed<B> {
    async fn inspect(&self, name: &LockName) -> Result<LockState, BackendError> {
        let state = self.able(self.backend.admin())?.inspect(&self.stored(name)?).await?;
        Ok(LockState { name: name.clone(), ..state })
    }

    fn changes(&self, name: &LockName) -> Option<Changes> {
        self.backend.admin()?.changes(&self.stored(name).ok()?)
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
        // C49: a lock whose name equals the prefix has no name here, and must not use up the limit, so the store lists
        // one more.
        let (stored, more) = (self.stored_start(prefix), limit.saturating_add(1));
        let listed = self.able(self.backend.admin())?.list_within(&stored, more, time).await;
        let known = |state: LockState| Some(LockState { name: self.known(&state.name)?, ..state });
        let known =
            |states: Vec<LockState>| states.into_iter().filter_map(known).take(limit).collect();
        listed.map(known).map_err(|error| error.renaming(known))
    }

    fn pages(&self, prefix: String, limit: usize) -> Pages<'_> {
        let admin = match self.able(self.backend.admin()) {
            Ok(admin) => admin,
            Err(error) => return Box::pin(stream::once(ready(Err(error)))),
        };
        let known = |state: LockState| Some(LockState { name: self.known(&state.name)?, ..state });
        let mut left = limit;
        // C49: one more, as in a listing.
        let pages = admin.pages(self.stored_start(&prefix), limit.saturating_add(1));
        Box::pin(pages.map(move |page| {
            let mut known = |states: Vec<LockState>| -> Vec<LockState> {
                let page: Vec<_> = states.into_iter().filter_map(known).take(left).collect();
                left -= page.len();
                page
            };
            page.map(&mut known).map_err(|error| error.renaming(known))
        }))
    }

    async fn evict(&self, name: &LockName, whom: &Whom) -> Result<Vec<Holder>, BackendError> {
        self.able(self.backend.admin())?.evict(&self.stored(name)?, whom).await
    }

    async fn examine(&self, state: &LockState) -> Result<Vec<Finding>, BackendError> {
        let state = LockState { name: self.stored(&state.name)?, ..state.clone() };
        self.able(self.backend.admin())?.examine(&state).await
    }

    async fn doctor(&self, prefix: &str) -> Result<Vec<Finding>, BackendError> {
        self.able(self.backend.admin())?.doctor(&self.stored_start(prefix)).await
    }
}
