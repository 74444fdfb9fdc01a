//! Inspection of locks and servers for operators, and eviction.

use crate::backend::LockAdmin;
use crate::client::LockClient;
use crate::examination;
use crate::fence::Fence;
use crate::model::{
    BackendError, FenceError, Finding, Holder, LockError, LockName, LockState, Occurrence,
    RecordedRun, Whom,
};

/// Inspects locks and servers, and evicts holders: for operators and tools. See [`LockClient::admin`].
///
/// It shares the client's connections, and is as cheap to clone.
#[derive(Clone, Debug)]
pub struct Admin {
    client: LockClient,
}

impl Admin {
    pub(crate) fn new(client: LockClient) -> Self {
        Self { client }
    }

    /// Returns the backend's interface for operators; `None` if it has none.
    pub(crate) fn backend(&self) -> Option<&dyn LockAdmin> {
        let store = self.client.store();
        store.process.is_this().then(|| store.backend.admin()).flatten()
    }

    /// Waits until the client is shut down.
    pub(crate) async fn closed(&self) {
        let mut closed = self.client.shared.closed.subscribe();
        // The sender lives as long as `self`.
        let _ = closed.wait_for(|closed| *closed).await;
    }

    /// Returns the client.
    pub(crate) fn client(&self) -> &LockClient {
        &self.client
    }

    /// Refuses a watch in a fork of the client's process.
    pub(crate) fn refuse_in_fork(&self, name: Option<&LockName>) -> Result<(), LockError> {
        self.client.store().refuse_in_fork("watch", name)
    }

    /// Returns the backend's name, as errors show it.
    pub(crate) fn name(&self) -> &'static str {
        self.client.store().name()
    }

    /// Asks the server once, for a question that takes many requests, or whose repeat has another answer.
    async fn once<T>(
        &self,
        operation: &'static str,
        name: Option<&LockName>,
        answer: impl Future<Output = Result<T, BackendError>>,
    ) -> Result<T, LockError> {
        let answer = self.client.store().request_once(answer).await;
        answer.map_err(|source| LockError::backend(operation, name, source))
    }

    /// Looks at a lock without touching it.
    ///
    /// # Errors
    /// - [`LockError::Invalid`]: nothing was sent.
    /// - [`LockError::NotALock`] if the store has something else under the lock's name.
    /// - [`LockError::Backend`] if the server cannot be reached or refuses.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
    /// # use lock_core::{LockClient, LockRequest, MemoryBackend};
    /// # let locks = LockClient::new(MemoryBackend::new());
    /// let _guard = locks.acquire(LockRequest::new("nightly").label("host-7")).await?;
    /// let state = locks.admin().inspect("nightly").await?;
    /// assert_eq!(state.holder().expect("it is held").label.as_str(), "host-7");
    /// # Ok(()) }
    /// ```
    pub async fn inspect(&self, name: impl AsRef<str>) -> Result<LockState, LockError> {
        let name = LockName::new(name)?;
        let store = self.client.store();
        let answer = store.request(async || store.admin()?.inspect(&name).await).await;
        answer.map_err(|source| LockError::backend("inspect", Some(&name), source))
    }

    /// Lists the locks that are held and whose names start with `prefix`, sorted by name, at most `limit` of them. It
    /// may scan all locks of the store: it is for people, not for programs.
    ///
    /// # Errors
    /// - [`LockError::Backend`] if the server cannot be reached or refuses.
    /// - [`LockError::Incomplete`] if a part could not be read: some servers of a Redis Cluster do not answer,
    ///   another process keeps the file of a lock locked, or a Redis server has more names than can be looked at within
    ///   the request time-out. The error has the locks of the rest, and the reason. So a
    ///   listing without an error is complete.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
    /// # use lock_core::{LockClient, LockRequest, MemoryBackend};
    /// # let locks = LockClient::new(MemoryBackend::new());
    /// let _guard = locks.acquire("job/nightly").await?;
    /// let held = locks.admin().list("job/", 100).await?;
    /// assert_eq!(held[0].name.as_str(), "job/nightly");
    /// # Ok(()) }
    /// ```
    pub async fn list(
        &self,
        prefix: impl AsRef<str>,
        limit: usize,
    ) -> Result<Vec<LockState>, LockError> {
        let store = self.client.store();
        let time = store.options.request_timeout;
        let list = async { store.admin()?.list_within(prefix.as_ref(), limit, time).await };
        self.once("list locks", None, list).await
    }

    /// Ends the holds of all holders of the lock, and grants it to the next waiters. Returns the former holders in
    /// the order of their grants; none if nobody held it.
    ///
    /// This call is for operators. The holder is not asked: it may believe in its hold, and write, until its next renewal. A
    /// [`Fence`] refuses its writes once the next holder has advanced the fence;
    /// [`evict_and_fence`](Self::evict_and_fence) advances it at once. The eviction is tried once, because a repeat
    /// might end the hold of the next holder.
    ///
    /// # Errors
    /// - [`LockError::Invalid`]: nothing was sent.
    /// - [`LockError::NotALock`] if the store has something else under the lock's name, which stays untouched.
    /// - [`LockError::Backend`] if the server cannot be reached or refuses. Its
    ///   [outcome](crate::BackendError::outcome) says whether the hold may be over.
    ///
    /// # Cancel safety
    /// If the future is dropped, the hold may or may not be over.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
    /// # use lock_core::{LockClient, LockRequest, MemoryBackend};
    /// # let locks = LockClient::new(MemoryBackend::new());
    /// let hung = locks.acquire("nightly").await?;
    /// let ended = locks.admin().evict("nightly").await?;
    /// assert_eq!(ended[0].token, Some(hung.token()));
    /// // Whoever comes next has the greater token.
    /// assert!(locks.acquire("nightly").await?.token() > hung.token());
    /// # Ok(()) }
    /// ```
    pub async fn evict(&self, name: impl AsRef<str>) -> Result<Vec<Holder>, LockError> {
        self.evict_whom(&LockName::new(name)?, &Whom::All).await
    }

    /// Ends the hold of the owner whose id begins with these 8 hex digits, as [`Holder::owner`] shows them; `None` if
    /// this owner does not hold the lock. Other holders of the lock stay (C38).
    ///
    /// Otherwise it is as [`evict`](Self::evict).
    ///
    /// # Errors
    /// As [`evict`](Self::evict).
    ///
    /// # Cancel safety
    /// As [`evict`](Self::evict).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
    /// # use lock_core::{LockClient, LockRequest, MemoryBackend};
    /// # let locks = LockClient::new(MemoryBackend::new());
    /// let hung = locks.acquire(LockRequest::new("licences").permits(1, 5)).await?;
    /// let works = locks.acquire(LockRequest::new("licences").permits(1, 5)).await?;
    /// let holders = locks.admin().inspect("licences").await?.holders;
    /// let owner = holders[0].owner.as_deref().expect("one of ours");
    /// let ended = locks.admin().evict_owner("licences", owner).await?.expect("it held a permit");
    /// assert_eq!(ended.token, Some(hung.token()));
    /// works.release().await?;
    /// # Ok(()) }
    /// ```
    pub async fn evict_owner(
        &self,
        name: impl AsRef<str>,
        owner: impl AsRef<str>,
    ) -> Result<Option<Holder>, LockError> {
        let whom = Whom::Owner(owner.as_ref().to_owned());
        Ok(self.evict_whom(&LockName::new(name)?, &whom).await?.pop())
    }

    async fn evict_whom(&self, name: &LockName, whom: &Whom) -> Result<Vec<Holder>, LockError> {
        let evict = async { self.client.store().admin()?.evict(name, whom).await };
        self.once("evict the holder of", Some(name), evict).await
    }

    /// Ends the holds of all holders of the lock, as [`evict`](Self::evict) does, and advances `fence` past their
    /// tokens (C46). So the fence refuses the evicted holders even before the next holder comes.
    ///
    /// A foreign holder has no token, and no fence knows it.
    ///
    /// # Errors
    /// - As [`evict`](Self::evict); the fence is then unchanged.
    /// - [`LockError::Unfenced`] if the hold is over, but the fence could not be asked. Advance the fence before you
    ///   rely on it: another eviction would end the hold of the next holder.
    ///
    /// # Cancel safety
    /// If the future is dropped, the hold may or may not be over, and the fence advanced or not.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
    /// # use lock_core::{Fence, LockClient, LockRequest, MemoryFence, MemoryBackend};
    /// # let locks = LockClient::new(MemoryBackend::new());
    /// let fence = MemoryFence::new();
    /// let hung = locks.acquire("nightly").await?;
    /// locks.admin().evict_and_fence("nightly", &fence).await?;
    /// // Nobody has the lock now, and the old holder is kept out all the same.
    /// assert!(fence.advance(hung.token()).await.is_err());
    /// # Ok(()) }
    /// ```
    pub async fn evict_and_fence(
        &self,
        name: impl AsRef<str>,
        fence: &dyn Fence,
    ) -> Result<Vec<Holder>, LockError> {
        self.evict_whom_and_fence(&LockName::new(name)?, &Whom::All, fence).await
    }

    /// Ends the hold of one owner, as [`evict_owner`](Self::evict_owner) does, and advances `fence` past its token
    /// (C46). `None` if this owner does not hold the lock; the fence is then unchanged.
    ///
    /// Give it the fence of a resource to which only this holder writes, such as that of the slot of a permit. A
    /// fence that holders share also refuses other holders with smaller tokens.
    ///
    /// # Errors
    /// As [`evict_and_fence`](Self::evict_and_fence).
    ///
    /// # Cancel safety
    /// As [`evict_and_fence`](Self::evict_and_fence).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
    /// # use lock_core::{Fence, LockClient, LockRequest, MemoryFence, MemoryBackend};
    /// # let locks = LockClient::new(MemoryBackend::new());
    /// let seat = || LockRequest::new("licences").permits(1, 5);
    /// let (hung, works) = (locks.acquire(seat()).await?, locks.acquire(seat()).await?);
    /// let fence_of_slot_0 = MemoryFence::new();
    /// let holders = locks.admin().inspect("licences").await?.holders;
    /// let owner = holders[0].owner.as_deref().expect("one of ours");
    /// locks.admin().evict_owner_and_fence("licences", owner, &fence_of_slot_0).await?;
    /// assert!(fence_of_slot_0.advance(hung.token()).await.is_err());
    /// assert!(works.is_held());
    /// # Ok(()) }
    /// ```
    pub async fn evict_owner_and_fence(
        &self,
        name: impl AsRef<str>,
        owner: impl AsRef<str>,
        fence: &dyn Fence,
    ) -> Result<Option<Holder>, LockError> {
        let whom = Whom::Owner(owner.as_ref().to_owned());
        Ok(self.evict_whom_and_fence(&LockName::new(name)?, &whom, fence).await?.pop())
    }

    async fn evict_whom_and_fence(
        &self,
        name: &LockName,
        whom: &Whom,
        fence: &dyn Fence,
    ) -> Result<Vec<Holder>, LockError> {
        let evicted = self.evict_whom(name, whom).await?;
        // A task of the evicted client may have a later token than the hold on the server.
        let tokens = evicted.iter().filter_map(|holder| holder.reserved.max(holder.token));
        if let Some(token) = tokens.max() {
            match fence.advance(token.successor()).await {
                // A later holder was quicker.
                Ok(()) | Err(FenceError::Stale { .. }) => {}
                Err(source) => return Err(LockError::Unfenced { name: name.clone(), source }),
            }
        }
        Ok(evicted)
    }

    /// Returns the recorded [runs](LockClient::once) of a lock, in the order of their tokens (C42). It may scan the
    /// whole store: it is for people, not for programs.
    ///
    /// # Errors
    /// - [`LockError::Invalid`]: nothing was sent.
    /// - [`LockError::Backend`] if the store records no runs, the server cannot be reached or refuses.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
    /// # use lock_core::{LockClient, MemoryBackend};
    /// # let locks = LockClient::new(MemoryBackend::new());
    /// let nightly = || locks.once("nightly").occurrence("2026-11-21");
    /// nightly().run(async |_| println!("billed")).await?.ran().expect("it is free").into_value()?;
    /// let runs = locks.admin().runs("nightly").await?;
    /// assert_eq!(runs[0].occurrence.as_str(), "2026-11-21");
    /// // The bills were wrong: they are made again.
    /// assert!(locks.admin().forget("nightly", "2026-11-21").await?);
    /// assert!(nightly().run(async |_| println!("billed")).await?.ran().is_some());
    /// # Ok(()) }
    /// ```
    pub async fn runs(&self, name: impl AsRef<str>) -> Result<Vec<RecordedRun>, LockError> {
        let name = LockName::new(name)?;
        let list = async { self.client.store().run_records()?.runs(&name, None).await };
        let mut runs = self.once("list the runs of", Some(&name), list).await?;
        runs.sort_unstable_by_key(|run| run.token);
        Ok(runs)
    }

    /// Removes the record of a run, so that its occurrence can run again; false if none was recorded. It is tried
    /// once, because a repeat would also return false.
    ///
    /// A run of the occurrence in progress continues, and is recorded at its end.
    ///
    /// # Errors
    /// As [`runs`](Self::runs).
    ///
    /// # Cancel safety
    /// If the future is dropped, the run may or may not be forgotten.
    pub async fn forget(
        &self,
        name: impl AsRef<str>,
        occurrence: impl AsRef<str>,
    ) -> Result<bool, LockError> {
        let (name, occurrence) = (LockName::new(name)?, Occurrence::new(occurrence)?);
        let forget = async { self.client.store().run_records()?.forget(&name, &occurrence).await };
        self.once("forget a run of", Some(&name), forget).await
    }

    /// Checks the live server for dangers to locks: settings, rights, its role, its clock.
    ///
    /// # Errors
    /// [`LockError::Backend`] if the server cannot be reached. A value that the server refuses to show is a finding.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn doctor(&self) -> Result<Vec<Finding>, LockError> {
        let examine = async { self.client.store().admin()?.doctor("").await };
        self.once("examine the server", None, examine).await
    }

    /// Checks one lock for obstacles to its acquisition (C33, C49): something under its name that is no lock, a foreign
    /// holder without a TTL, or users that count different numbers of permits. The store adds its own findings, such as a
    /// clock that stepped back.
    ///
    /// # Errors
    /// - [`LockError::Invalid`]: nothing was sent.
    /// - [`LockError::Backend`] if the server cannot be reached or refuses.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
    /// # use lock_core::{Health, LockClient, MemoryBackend};
    /// # let locks = LockClient::new(MemoryBackend::new());
    /// for finding in locks.admin().examine("nightly").await? {
    ///     assert_eq!(finding.health, Health::Good, "{finding}");
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn examine(&self, name: impl AsRef<str>) -> Result<Vec<Finding>, LockError> {
        let seen = self.inspect(name).await;
        let state = seen.as_ref().ok().cloned();
        let mut findings = examination::findings(seen)?;
        if let Some(state) = state {
            let more = async { self.client.store().admin()?.examine(&state).await };
            findings.extend(self.once("examine", Some(&state.name), more).await?);
        }
        Ok(findings)
    }
}
