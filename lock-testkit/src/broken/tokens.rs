//! Tokens that do not grow.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use lock_core::backend::{Attempt, Claim, Grant, Release, Renewal};
use lock_core::{DistributedLock, FencingToken, LockAdmin, LockName, OwnerId, Whom};

use super::flaw::{Evicted, ExtensionResult, Flaw, Released, Sound, Tried, Waiter};

/// Source of a lock's next token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tokens {
    /// A counter in the row, which an eviction deletes.
    AnewAfterEviction,
    /// A counter in a key that expires.
    AnewAfterExpiry,
    /// The clock, in seconds.
    OfTheClock,
    /// The row, which keeps the token of its owner after an expiry.
    OfTheOwner,
}

/// Numbers the grants of a sound backend by another rule.
#[derive(Debug)]
pub(super) struct Numbered {
    tokens: Tokens,
    rows: Mutex<HashMap<LockName, Row>>,
}

#[derive(Debug)]
struct Row {
    number: u64,
    /// The owner whose hold was not ended, though it may have expired.
    owner: Option<OwnerId>,
    /// The token of that hold in the sound backend.
    sound: FencingToken,
}

impl Numbered {
    pub(super) fn by(tokens: Tokens) -> Self {
        Self { tokens, rows: Mutex::default() }
    }

    fn rows(&self) -> MutexGuard<'_, HashMap<LockName, Row>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn number(&self, claim: &Claim, grant: &Grant) -> FencingToken {
        let mut rows = self.rows();
        let last = rows.get(&claim.name);
        let is_own = last.is_some_and(|row| row.owner == Some(claim.owner));
        let is_repeat = is_own && last.is_some_and(|row| row.sound == grant.token);
        let has_expired = last.is_some_and(|row| row.owner.is_some()) && !is_repeat;
        let before = last.map_or(0, |row| row.number);
        let number = match self.tokens {
            _ if is_repeat => before,
            Tokens::OfTheOwner if is_own => before,
            Tokens::OfTheClock => seconds(),
            Tokens::AnewAfterExpiry if has_expired => 1,
            _ => before + 1,
        };
        let row = Row { number, owner: Some(claim.owner), sound: grant.token };
        rows.insert(claim.name.clone(), row);
        FencingToken::new(number).expect("a good token")
    }

    fn ended(&self, name: &LockName) {
        if let Some(row) = self.rows().get_mut(name) {
            row.owner = None;
        }
    }
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[async_trait]
impl Flaw for Numbered {
    /// Queues nobody, since a pushed grant would have the token of the sound backend.
    async fn acquire(&self, sound: &Sound, claim: &Claim, _waiter: Waiter<'_>) -> Tried {
        let mut attempt = sound.acquire(claim, None).await?;
        if let Attempt::Granted(grant) = &mut attempt {
            grant.token = self.number(claim, grant);
        }
        Ok(attempt)
    }

    async fn extend(&self, sound: &Sound, renewals: &[Renewal]) -> Vec<ExtensionResult> {
        let mut renewals = renewals.to_vec();
        for renewal in &mut renewals {
            let row = |row: &Row| (row.number == renewal.token.get()).then_some(row.sound);
            if let Some(token) = self.rows().get(&renewal.name).and_then(row) {
                renewal.token = token;
            }
        }
        sound.extend(&renewals).await
    }

    async fn release(&self, sound: &Sound, name: &LockName, owner: OwnerId) -> Released {
        let released = sound.release(name, owner).await?;
        if released == Release::Released {
            self.ended(name);
        }
        Ok(released)
    }

    async fn evict(&self, sound: &Sound, name: &LockName, whom: &Whom) -> Evicted {
        self.ended(name);
        if self.tokens == Tokens::AnewAfterEviction {
            self.rows().remove(name);
        }
        sound.evict(name, whom).await
    }
}
