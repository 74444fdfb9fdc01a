//! A sound backend with one flaw.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use futures_util::stream;
use lock_core::backend::{
    Attempt, Changes, Claim, Extension, LossWatch, Release, Renewal, WaiterHandle,
};
use lock_core::backend::{RecordsRuns, ReservesTokens};
use lock_core::{
    BackendError, Capabilities, DistributedLock, FencingToken, Finding, Holder, Lease, LockAdmin,
    LockName, LockState, MemoryBackend, OwnerId, Ttl, Whom,
};
use lock_core::{Contention, Outcome};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};

use super::flaw::{ExtensionResult, Flaw, Tokens};
use super::seen::Seen;

/// Delay of a disk, or of a server nearby.
const TAKES: Duration = Duration::from_millis(20);

/// Answer to a request of a broken backend.
pub(super) type Answer<T> = Result<T, BackendError>;

/// The memory backend, except for its flaw.
#[derive(Debug)]
pub(super) struct Broken {
    pub(super) sound: MemoryBackend,
    pub(super) flaw: Flaw,
    seen: Mutex<Seen>,
}

impl Broken {
    pub(super) fn with(flaw: Flaw) -> Self {
        Self { sound: MemoryBackend::new(), flaw, seen: Mutex::default() }
    }

    pub(super) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Called at the begin of each call.
    pub(super) fn begin(&self) {
        if matches!(self.flaw, Flaw::Blocks) {
            thread::sleep(TAKES);
        }
    }

    /// Returns the name as the store has it.
    fn stored(&self, name: &LockName) -> LockName {
        match self.flaw {
            Flaw::StoresNames(stored) => LockName::new(stored(name.as_str())).expect("a good name"),
            _ => name.clone(),
        }
    }

    /// Returns the token of `owner`, if it holds the lock.
    pub(super) async fn own_token(
        &self,
        name: &LockName,
        owner: OwnerId,
    ) -> Answer<Option<FencingToken>> {
        let holders = self.sound.inspect(name).await?.holders;
        // An inspection shows the first digits of the owner id.
        let is_own = |holder: &Holder| holder.owner.as_deref() == Some(&owner.to_string());
        Ok(holders.into_iter().find(is_own).and_then(|holder| holder.token))
    }

    /// Ends a hold whose last extension, which shortened it, is over.
    async fn expire(&self, name: &LockName) -> Answer<()> {
        let is_over = self.seen().ends.get(name).is_some_and(|end| *end <= Instant::now());
        if is_over {
            self.seen().ends.remove(name);
            self.sound.evict(name, &Whom::All).await?;
        }
        Ok(())
    }

    /// Does what a flaw does before the request, and returns the changed claim; `None` if the answer is "busy".
    async fn changed(&self, claim: &Claim) -> Answer<Option<Claim>> {
        let (name, owner) = (&claim.name, claim.owner);
        let mut changed = claim.clone();
        changed.name = self.stored(name);
        self.expire(name).await?;
        match self.flaw {
            Flaw::ChecksThenGrants if self.sound.inspect(name).await?.holder().is_none() => {
                // The write comes later.
                yield_now().await;
                self.sound.evict(name, &Whom::All).await?;
            }
            Flaw::ShortTtl { grant, repeat, .. } => {
                let is_repeat = self.own_token(name, owner).await?.is_some();
                changed.ttl = share_of(claim.ttl, if is_repeat { repeat } else { grant });
            }
            Flaw::RepeatIsBusy if self.own_token(name, owner).await?.is_some() => return Ok(None),
            Flaw::EvictionForgetsWaiters if self.seen().forgotten.contains(&owner) => {
                return Ok(None);
            }
            Flaw::RepeatIsAnotherGrant => _ = self.sound.release(name, owner).await?,
            Flaw::RemembersWithdrawal(time) if self.seen().is_withdrawn(owner, time) => {
                return Err(BackendError::withdrawn("memory"));
            }
            _ => {}
        }
        Ok(Some(changed))
    }

    /// Returns the changed answer to a claim, which came with a waiter to wake.
    fn answered(&self, claim: &Claim, waits: bool, attempt: Answer<Attempt>) -> Answer<Attempt> {
        match (self.flaw, attempt) {
            (Flaw::RefusalShowsOwner(refusal), Err(_)) => Err(refusal(claim)),
            (Flaw::RefusesForNow, Err(error)) => {
                let why = "a row is missing";
                Err(BackendError::transient("memory", Outcome::NotApplied, why, error))
            }
            (Flaw::BusyTellsNothing, Ok(Attempt::Busy(_))) => Ok(busy()),
            (Flaw::EvictionForgetsWaiters, Ok(Attempt::Busy(contention))) => {
                if waits {
                    self.seen().waiting.push((claim.name.clone(), claim.owner));
                }
                Ok(Attempt::Busy(contention))
            }
            (Flaw::Numbers(tokens), Ok(Attempt::Granted(mut grant))) => {
                grant.token = self.seen().number(tokens, claim, grant.token);
                Ok(Attempt::Granted(grant))
            }
            (Flaw::ShortTtl { .. }, Ok(Attempt::Granted(mut grant))) => {
                grant.ttl = claim.ttl.as_duration();
                Ok(Attempt::Granted(grant))
            }
            (_, attempt) => attempt,
        }
    }

    /// Returns the changed renewal of a batch, whose first one is for `first`.
    async fn renewed(&self, renewal: &Renewal, first: Ttl) -> Renewal {
        let mut renewed = renewal.clone();
        renewed.name = self.stored(&renewal.name);
        match self.flaw {
            Flaw::OneTtlForAll => renewed.ttl = first,
            Flaw::ShortTtl { extension, .. } => renewed.ttl = share_of(renewal.ttl, extension),
            Flaw::AnyOwnerExtends => {
                let holder = self.seen().claims.get(&renewal.name).map(|claim| claim.owner);
                renewed.owner = holder.unwrap_or(renewal.owner);
            }
            Flaw::AnyTokenExtends => {
                let own = self.own_token(&renewal.name, renewal.owner).await.ok().flatten();
                renewed.token = own.unwrap_or(renewal.token);
            }
            Flaw::Numbers(_) => renewed.token = self.seen().sound_token(renewal),
            _ => {}
        }
        renewed
    }

    /// Returns the changed answer to a renewal.
    async fn extended(&self, renewal: &Renewal, answer: ExtensionResult) -> ExtensionResult {
        match (self.flaw, answer?) {
            (Flaw::ShortTtl { .. }, Extension::Extended(_)) => {
                Ok(Extension::Extended(renewal.ttl.as_duration()))
            }
            (Flaw::ExtensionShortens, Extension::Extended(ttl)) => {
                self.seen().ends.insert(renewal.name.clone(), Instant::now() + ttl);
                Ok(Extension::Extended(ttl))
            }
            (Flaw::ExtensionRevives, answer) => {
                let is_free = self.sound.inspect(&renewal.name).await?.holder().is_none();
                let last = self.seen().claims.get(&renewal.name).cloned();
                match last.filter(|last| is_free && last.owner == renewal.owner) {
                    Some(last) => {
                        self.sound.acquire(&last, None).await?;
                        Ok(Extension::Extended(renewal.ttl.as_duration()))
                    }
                    None => Ok(answer),
                }
            }
            (_, answer) => Ok(answer),
        }
    }
}

/// Returns the answer of a lock that tells nothing.
fn busy() -> Attempt {
    Attempt::Busy(Contention::unknown())
}

fn share_of(ttl: Ttl, share: f64) -> Ttl {
    let shortest = Duration::from_millis(10);
    Ttl::new(ttl.as_duration().mul_f64(share).max(shortest)).expect("a good TTL")
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl DistributedLock for Broken {
    fn capabilities(&self) -> Capabilities {
        self.sound.capabilities()
    }

    async fn acquire(&self, claim: &Claim, waiter: Option<&WaiterHandle>) -> Answer<Attempt> {
        self.begin();
        let Some(changed) = self.changed(claim).await? else { return Ok(busy()) };
        let queues_nobody = matches!(
            self.flaw,
            Flaw::WakesNobody | Flaw::EvictionForgetsWaiters | Flaw::Numbers(_)
        );
        let queued = waiter.filter(|_| !queues_nobody);
        let attempt = self.sound.acquire(&changed, queued).await;
        let attempt = self.answered(claim, waiter.is_some(), attempt)?;
        if matches!(attempt, Attempt::Granted(_)) {
            self.seen().claims.insert(claim.name.clone(), claim.clone());
        }
        Ok(attempt)
    }

    async fn extend(&self, renewals: &[Renewal]) -> Vec<ExtensionResult> {
        self.begin();
        let mut asked = Vec::new();
        for renewal in renewals {
            asked.push(self.renewed(renewal, renewals[0].ttl).await);
        }
        let mut answers = Vec::new();
        for (renewal, answer) in renewals.iter().zip(self.sound.extend(&asked).await) {
            answers.push(self.extended(renewal, answer).await);
        }
        match self.flaw {
            Flaw::AnswersBatch(answered) => answered(answers),
            _ => answers,
        }
    }

    async fn release(&self, name: &LockName, owner: OwnerId) -> Answer<Release> {
        self.begin();
        self.seen().ended_by(name, owner);
        if matches!(self.flaw, Flaw::ReleaseOfAnyOwner) {
            let ended = self.sound.evict(name, &Whom::All).await?;
            return Ok(if ended.is_empty() { Release::NotHeld } else { Release::Released });
        }
        match self.sound.release(&self.stored(name), owner).await? {
            Release::NotHeld if !matches!(self.flaw, Flaw::AlwaysReleased) => Ok(Release::NotHeld),
            _ => {
                self.seen().released(name);
                Ok(Release::Released)
            }
        }
    }

    async fn withdraw(&self, name: &LockName, owners: &[OwnerId]) -> Answer<()> {
        self.begin();
        owners.iter().for_each(|owner| self.seen().ended_by(name, *owner));
        match self.flaw {
            Flaw::RemembersWithdrawal(_) => {
                for owner in owners {
                    self.seen().withdrawn.insert(*owner, Instant::now());
                    // A release without a hold would look for waiters that have gone.
                    if self.own_token(name, *owner).await?.is_some() {
                        self.sound.release(name, *owner).await?;
                    }
                }
            }
            Flaw::WithdrawalOfAnyOwner => {
                self.sound.withdraw(name, owners).await?;
                self.sound.evict(name, &Whom::All).await?;
            }
            _ => self.sound.withdraw(&self.stored(name), owners).await?,
        }
        Ok(())
    }

    fn server_of(&self, name: &LockName) -> u64 {
        self.sound.server_of(name)
    }

    fn watch(&self, lease: &Lease) -> Option<LossWatch> {
        match self.flaw {
            Flaw::WatchTellsOfNoLoss => Some(Box::pin(sleep(Duration::from_millis(100)))),
            _ => self.sound.watch(lease),
        }
    }

    async fn close(&self) -> Answer<()> {
        self.begin();
        self.sound.close().await
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
impl LockAdmin for Broken {
    async fn inspect(&self, name: &LockName) -> Answer<LockState> {
        self.begin();
        self.expire(name).await?;
        let mut state = self.sound.inspect(&self.stored(name)).await?;
        state.name = name.clone();
        let mut seen = self.seen();
        let holder = state.holders.first_mut();
        match (self.flaw, holder) {
            (Flaw::InspectionShowsOwner, Some(holder)) => {
                let claim = seen.claims.get(name);
                holder.owner = claim.map(|claim| claim.owner.expose()).or(holder.owner.take());
            }
            (Flaw::SinceMoves, Some(holder)) => holder.since = Some(SystemTime::now()),
            (Flaw::ExtensionShortens, Some(holder)) => {
                let left = |end: &Instant| end.saturating_duration_since(Instant::now());
                holder.ttl_left = seen.ends.get(name).map(left).or(holder.ttl_left);
            }
            (Flaw::InspectsLate, _) => {
                return Ok(seen.states.insert(name.clone(), state.clone()).unwrap_or(state));
            }
            (Flaw::ShowsTheExpired, None) if seen.claims.contains_key(name) => {
                return Ok(seen.states.get(name).cloned().unwrap_or(state));
            }
            (Flaw::ShowsTheExpired, _) => _ = seen.states.insert(name.clone(), state.clone()),
            _ => {}
        }
        Ok(state)
    }

    fn changes(&self, name: &LockName) -> Option<Changes> {
        match self.flaw {
            Flaw::TellsNoChanges => Some(Box::pin(stream::pending())),
            _ => self.sound.changes(name),
        }
    }

    async fn list(&self, prefix: &str, limit: usize) -> Answer<Vec<LockState>> {
        self.begin();
        match self.flaw {
            Flaw::Lists(chosen) => {
                Ok(chosen(prefix, limit, self.sound.list("", usize::MAX).await?))
            }
            Flaw::ListsTheExpired => Ok(self.seen().all_held(prefix, limit)),
            Flaw::BlocksToList => {
                thread::sleep(TAKES);
                self.sound.list(prefix, limit).await
            }
            _ => self.sound.list(prefix, limit).await,
        }
    }

    async fn examine(&self, state: &LockState) -> Answer<Vec<Finding>> {
        self.begin();
        self.sound.examine(state).await
    }

    async fn evict(&self, name: &LockName, whom: &Whom) -> Answer<Vec<Holder>> {
        self.begin();
        let deletes_row = matches!(self.flaw, Flaw::Numbers(Tokens::AnewAfterEviction));
        self.seen().evicted(name, deletes_row);
        let ended = self.sound.evict(&self.stored(name), whom).await?;
        Ok(if matches!(self.flaw, Flaw::EvictionTellsNobody) { Vec::new() } else { ended })
    }

    async fn doctor(&self, prefix: &str) -> Answer<Vec<Finding>> {
        self.begin();
        self.sound.doctor(prefix).await
    }
}
