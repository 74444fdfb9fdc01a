//! A lock as one value, for stores that compare and swap.

use std::time::Duration;

use super::answers::{Attempt, Extension, Recording, Release};
use super::bounds::{ClockLimit, WITHDRAWAL_REMEMBERED};
use super::lock_value::{ClockReading, LockValue};
use crate::model::{
    BackendError, Claim, FencingToken, Holder, Kind, LockName, LockState, Occurrence, Outcome,
    OwnerId, Record, RecordedRun, Renewal, Ttl, Whom,
};

/// A store's whole state of a lock, as one value. It is for stores that can only replace a value if it has not
/// changed since it was read (compare-and-swap).
///
/// A backend reads the value and the store's clock, lets the register answer the request, and writes the changed
/// value back; an unchanged one need not be written. If another client changed the value meanwhile, the backend begins
/// again, since nothing was applied. So concurrent requests are in an order, and the register alone keeps the clauses
/// of the contract:
///
/// ```text
///                 acquire: the next token
///         free ─────────────────────────────▶ held ─┐ acquire and extend by the owner:
///   the last token ◀──────────────────────────   ◀──┘ the same token, never shorter
///   stays (C22)     release, withdraw, evict,
///                   or the end of its time      withdraw: the owner is refused from
///                                               then on (C19)
/// ```
///
/// The value must outlast holds and withdrawals: the store keeps it for at least [`kept_for`](Self::kept_for) after
/// it was written. With the feature `serde` it is serialised whole, with a mark of its format. A value of an unknown
/// format does not deserialise: it may be that of a later version, under which the lock is held. A backend refuses
/// such a value ([`BackendError::not_a_lock`]), and never begins with a new register in its place. The value holds
/// owner ids, which are capabilities: everybody who can read the store can act as a holder.
///
/// Its holds are exclusive ones alone, the default of [`Capabilities`](crate::Capabilities). Its tokens are
/// [`CounterAndClock`](crate::TokenDurability::CounterAndClock): if the value is lost, they go on from the clock.
///
/// ```
/// # use std::collections::HashMap;
/// # use std::sync::Mutex;
/// # use std::time::Duration;
/// use lock_core::backend::{Attempt, ClockReading, Register, Release};
/// use lock_core::{LockName, LockRequest};
///
/// # #[derive(Default)] struct Store(Mutex<HashMap<LockName, (u64, Register)>>);
/// # impl Store {
/// #     fn get(&self, name: &LockName) -> Option<(u64, Register)> { self.0.lock().unwrap().get(name).cloned() }
/// #     fn now(&self) -> Duration { std::time::UNIX_EPOCH.elapsed().unwrap() }
/// #     fn compare_and_swap(&self, name: &LockName, version: Option<u64>, value: Register) -> bool {
/// #         let mut all = self.0.lock().unwrap();
/// #         let is_same = all.get(name).map(|(version, _)| *version) == version;
/// #         if is_same { all.insert(name.clone(), (version.unwrap_or(0) + 1, value)); }
/// #         is_same
/// #     }
/// # }
/// /// Asks the store once: the answer is that of the value which the store then has.
/// fn ask<T>(store: &Store, name: &LockName, request: impl Fn(&mut Register, ClockReading) -> T) -> T {
///     loop {
///         let (version, read) = store.get(name).unzip();
///         let read = read.unwrap_or_else(|| Register::new(name.clone()));
///         let mut lock = read.clone();
///         let answer = request(&mut lock, ClockReading::exact(store.now()));
///         if lock == read || store.compare_and_swap(name, version, lock) {
///             return answer;
///         }
///     }
/// }
///
/// let (store, claim) = (Store::default(), LockRequest::new("nightly").claim()?);
/// let attempt = ask(&store, &claim.name, |lock, at| lock.acquire("toy", &claim, at))?;
/// assert!(matches!(attempt, Attempt::Granted(_)));
/// let release = ask(&store, &claim.name, |lock, at| lock.release(claim.owner, at));
/// assert_eq!(release, Release::Released);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Register {
    format: Format,
    name: LockName,
    lock: LockValue,
    withdrawn: Vec<Withdrawn>,
    runs: Vec<Run>,
}

/// The stored format of a register: 1, the first. A later format may change anything, and has another number.
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(into = "u32", try_from = "u32"))]
struct Format;

#[cfg(feature = "serde")]
impl From<Format> for u32 {
    fn from(_: Format) -> Self {
        1
    }
}

#[cfg(feature = "serde")]
impl TryFrom<u32> for Format {
    type Error = String;

    fn try_from(number: u32) -> Result<Self, String> {
        let is_ours = number == u32::from(Self);
        is_ours.then_some(Self).ok_or_else(|| format!("format {number} of a register is not known"))
    }
}

#[derive(Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
struct Withdrawn {
    /// The whole owner id.
    owner: String,
    until: Duration,
}

/// A run that ended well.
#[derive(Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
struct Run {
    occurrence: Occurrence,
    token: FencingToken,
    until: Duration,
}

impl Register {
    /// A lock that the store does not know.
    pub fn new(name: LockName) -> Self {
        let (lock, withdrawn, runs) = Default::default();
        Self { format: Format, name, lock, withdrawn, runs }
    }

    /// The lock.
    pub fn name(&self) -> &LockName {
        &self.name
    }

    /// Returns the least time for which a store must keep a register that was just written. A store that records runs
    /// keeps it [for longer](Self::remembers_until).
    pub fn kept_for() -> Duration {
        // C4, C19: the longest hold, and the memory of a withdrawal.
        (Ttl::MAX.as_duration() + WITHDRAWAL_REMEMBERED) * 2
    }

    /// Returns the time on the store's clock until which a recorded run must be kept (C42); `None` if no run is
    /// recorded.
    pub fn remembers_until(&self) -> Option<Duration> {
        self.runs.iter().map(|run| run.until).max()
    }

    /// Grants the lock to a claim, if nobody else holds it. Errors name `backend`.
    ///
    /// # Errors
    /// A permanent [`BackendError`] if the claim was withdrawn, if it is not for an exclusive hold, or if the
    /// store's clock is beyond the last token.
    pub fn acquire(
        &mut self,
        backend: &'static str,
        claim: &Claim,
        at: ClockReading,
    ) -> Result<Attempt, BackendError> {
        let owner = claim.owner.expose();
        if self.withdrawn.iter().any(|withdrawn| withdrawn.owner == owner) {
            // C19: the claim is refused even if its request was sent before the withdrawal.
            return Err(BackendError::withdrawn(backend));
        }
        if claim.kind != Kind::Exclusive {
            let context = format!("a register has no {} holds", claim.kind);
            return Err(BackendError::refusal(backend, context));
        }
        let limit = ClockLimit::ADay.micros().map_or(at.wall, Duration::from_micros);
        let at = ClockReading { wall: at.wall.min(limit), ..at };
        self.lock.acquire(claim.into(), None, at).map_err(|error| {
            BackendError::permanent(backend, Outcome::NotApplied, "out of tokens", error)
        })
    }

    /// Extends a hold to its TTL from now, if it still is its owner's.
    pub fn extend(&mut self, renewal: &Renewal, at: ClockReading) -> Extension {
        self.lock.extend(renewal, at)
    }

    /// Ends the hold if it still is `owner`'s.
    pub fn release(&mut self, owner: OwnerId, at: ClockReading) -> Release {
        self.lock.release(owner, at)
    }

    /// Records a run that ended well, if its owner still has the hold with that token (C42).
    pub fn record(&mut self, record: &Record, at: ClockReading) -> Recording {
        if !self.lock.has(record.owner, record.token, at) {
            return Recording::Lost;
        }
        let occurrence = record.occurrence.clone();
        self.runs.retain(|old| old.until > at.now && old.occurrence != occurrence);
        let (token, until) = (record.token, at.after(record.remember));
        self.runs.push(Run { occurrence, token, until });
        Recording::Recorded
    }

    /// Returns the recorded runs: all of them, or that of one occurrence.
    pub fn runs(&self, of: Option<&Occurrence>, at: ClockReading) -> Vec<RecordedRun> {
        let kept = self.runs.iter().filter(|run| run.until > at.now);
        let asked = kept.filter(|run| of.is_none_or(|of| *of == run.occurrence));
        asked.map(|run| RecordedRun::new(run.occurrence.clone(), run.token)).collect()
    }

    /// Removes the record of a run; returns false if there is none.
    pub fn forget(&mut self, occurrence: &Occurrence, at: ClockReading) -> bool {
        let was_recorded = !self.runs(Some(occurrence), at).is_empty();
        self.runs.retain(|run| run.occurrence != *occurrence);
        was_recorded
    }

    /// Ends the hold of `owner`, and refuses its requests from now on (C19).
    pub fn withdraw(&mut self, owner: OwnerId, at: ClockReading) {
        self.release(owner, at);
        let (owner, until) = (owner.expose(), at.after(WITHDRAWAL_REMEMBERED));
        self.withdrawn.retain(|old| old.until > at.now && old.owner != owner);
        self.withdrawn.push(Withdrawn { owner, until });
    }

    /// Ends the hold if it is one of `whom`, and returns the former holder.
    pub fn evict(&mut self, whom: &Whom, at: ClockReading) -> Vec<Holder> {
        self.lock.evict(whom, at)
    }

    /// The lock as seen from outside.
    pub fn state(&self, at: ClockReading) -> LockState {
        self.lock.state(&self.name, None, at)
    }
}

impl std::fmt::Debug for Register {
    /// Shows no owner ids, since they are secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Register").field("name", &self.name).field("lock", &self.lock).finish()
    }
}

#[cfg(test)]
mod tests;
