//! One claim of a history.

use crate::Expect;
use lock_core::backend::DistributedLockExt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::super::steps::renewal;
use lock_core::backend::{Attempt, Claim, Extension, Grant, Release, WaiterEvents, WaiterHandle};
use lock_core::{BackendError, DistributedLock, FencingToken, Holder, LockState, Moment, Whom};

/// Number of repeats of a request without an answer, and the pause between them.
const TRIES: usize = 100;
const PAUSE: Duration = Duration::from_millis(10);

/// State of a claim.
///
/// ```text
///   Nothing ──asks──▶ Hold
///    ▲ │  ▲            │ ▲
///    │ └──┼── waits ──▶ Place
///    │    └────────────┼─┘ ends: withdrawn, refused
///    └─────────────────┘ ends: released, withdrawn, evicted, expired
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum MemberState {
    Nothing,
    /// A place in the queue.
    Place,
    Hold,
}

/// Answer to an attempt to acquire.
pub(super) enum Attempted {
    Granted(Grant),
    Busy,
    /// The claim does not wait, and the holders count this other number of permits.
    Conflict(u16),
    Refused,
}

pub(super) struct Member {
    store: Arc<dyn DistributedLock>,
    pub(super) claim: Claim,
    waiter: WaiterHandle,
    // Keeps the place in the queue: the store drops places without a receiver.
    _events: WaiterEvents,
    /// Token of its last grant.
    pub(super) token: Option<FencingToken>,
    pub(super) standing: MemberState,
    pub(super) is_withdrawn: bool,
    /// Time of the last request to keep the hold.
    pub(super) renewed: Moment,
}

impl Member {
    pub(super) fn new(store: Arc<dyn DistributedLock>, claim: Claim, now: Moment) -> Self {
        let (waiter, _events) = WaiterHandle::channel();
        let (token, standing, is_withdrawn) = (None, MemberState::Nothing, false);
        Self { store, claim, waiter, _events, token, standing, is_withdrawn, renewed: now }
    }

    /// Returns its hold, for an eviction.
    pub(super) fn whom(&self) -> Whom {
        Whom::Owner(self.claim.owner.to_string())
    }

    /// Returns true if there is a hold that the test keeps from expiring.
    pub(super) fn is_live(&self) -> bool {
        self.standing == MemberState::Hold
    }

    pub(super) fn end(&mut self) {
        self.standing = MemberState::Nothing;
    }

    /// Asks again after a temporary failure, as a client does. A waiter keeps its place.
    pub(super) async fn attempt(&mut self, waits: bool, now: Moment) -> Attempted {
        let waits = waits || self.standing == MemberState::Place;
        let mut answer = self.try_acquire(waits).await;
        for _ in 0..TRIES {
            if !answer.as_ref().is_err_and(BackendError::is_transient) {
                break;
            }
            sleep(PAUSE).await;
            answer = self.try_acquire(waits).await;
        }
        let attempted = match answer {
            Ok(Attempt::Granted(grant)) => Attempted::Granted(grant),
            // C33: a waiter may be told of earlier holders, and a withdrawn claim may be told anything.
            Ok(Attempt::Busy(seen)) if !waits && !self.is_withdrawn => {
                seen.other_number(self.claim.kind).map_or(Attempted::Busy, Attempted::Conflict)
            }
            Ok(Attempt::Busy(_)) => Attempted::Busy,
            Err(_) => Attempted::Refused,
        };
        self.standing = match &attempted {
            Attempted::Granted(grant) => {
                (self.token, self.renewed) = (Some(grant.token), now);
                MemberState::Hold
            }
            // A withdrawn claim may get the answer "busy", and is not queued (C19).
            Attempted::Busy if waits && !self.is_withdrawn => MemberState::Place,
            _ => MemberState::Nothing,
        };
        attempted
    }

    async fn try_acquire(&self, waits: bool) -> Result<Attempt, BackendError> {
        self.store.acquire(&self.claim, waits.then_some(&self.waiter)).await
    }

    /// Keeps the hold from expiring; returns true if there is one.
    pub(super) async fn extend(&self) -> bool {
        let Some(token) = self.token else { return false };
        let renewal = renewal(&self.claim, token);
        answered(async || self.store.extend_one(&renewal).await).await != Extension::Lost
    }

    pub(super) async fn release(&self) -> bool {
        let Claim { name, owner, .. } = &self.claim;
        self.store.release(name, *owner).await.expect("an answer") == Release::Released
    }

    pub(super) async fn withdraw(&mut self) {
        let Claim { name, owner, .. } = &self.claim;
        answered(async || self.store.withdraw(name, &[*owner]).await).await;
        self.is_withdrawn = true;
        self.end();
    }

    /// Ends holds of its lock.
    pub(super) async fn evict(&self, whom: &Whom) -> Vec<Holder> {
        answered(async || self.store.expect_admin().evict(&self.claim.name, whom).await).await
    }

    /// Returns the state of its lock.
    pub(super) async fn inspect(&self) -> LockState {
        answered(async || self.store.expect_admin().inspect(&self.claim.name).await).await
    }

    /// Returns true if the store shows its last hold.
    pub(super) async fn is_shown(&self) -> bool {
        let state = self.inspect().await;
        state.holders.iter().any(|holder| holder.token == self.token)
    }
}

/// Returns the answer to a request. After a temporary failure, such as another request that overtook it, the request is
/// repeated, as a client does.
async fn answered<T>(mut ask: impl AsyncFnMut() -> Result<T, BackendError>) -> T {
    for _ in 0..TRIES {
        match ask().await {
            Ok(answer) => return answer,
            Err(error) => assert!(error.is_transient(), "an answer: {error}"),
        }
    }
    panic!("a request is to be answered in one of {TRIES} tries");
}
