//! How a name that moved is granted by the shard that has it now: under a token that is greater than those of its
//! former shard (C22).
//!
//! The counter of a shard begins at its time. It may be less than the last token of the former shard: if its clock
//! is behind, or if the name was there before. Then the first who asks reserves the missing tokens, and uses none of
//! them. A shard reserves no token that is ahead of its clock. So while the clock is behind, the lock is not granted.
//!
//! ```text
//!   closed under c ──▶ a hold of nobody: granted under t ──▶ t < c: reserve up to c ──▶ released ──▶ the claim
//! ```
//!
//! The hold of nobody has an owner of its own: if one of these requests comes late, it meets no other hold. If the
//! caller leaves meanwhile, that hold ends by its TTL, of a few seconds.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::member::Member;
use super::moving::of_nobody;
use crate::backend::answers::{Attempt, Reserved};
use crate::backend::bounds::UNCLAIMED_GRANT_TTL;
use crate::model::{BackendError, Claim, FencingToken, LockName, Outcome, Reservation, Ttl};

/// Of how many names it is remembered that they arrived. The others are looked at once more.
const MOST_REMEMBERED: usize = 10_000;

/// The names whose counters were seen to be no less than this token, under which they were closed.
#[derive(Debug, Default)]
pub(super) struct Arrivals(Mutex<HashMap<LockName, FencingToken>>);

impl Arrivals {
    /// Takes a lock that was closed on its former shard under `least`, which nobody has.
    pub(super) async fn acquire(
        &self,
        home: &Member,
        claim: &Claim,
        least: FencingToken,
    ) -> Result<Attempt, BackendError> {
        let has_arrived = self.names().get(&claim.name).is_some_and(|seen| *seen >= least);
        if !has_arrived && skip(home, &claim.name, least).await? {
            self.note(&claim.name, least);
        }
        // Nobody waits on the server, so that each grant is an answer which is compared.
        let attempt = home.named(home.backend.try_acquire(claim, None).await)?;
        match &attempt {
            Attempt::Granted(grant) if grant.token < least => {
                // The store has lost its counter since. The next request skips once more.
                self.names().remove(&claim.name);
                home.named(home.backend.withdraw(&claim.name, claim.owner).await)?;
                let seen =
                    format!("the lock moved here after token {least}, and {} is less", grant.token);
                home.named(Err(BackendError::refusal(home.backend.capabilities().backend, seen)))
            }
            Attempt::Granted(_) | Attempt::Busy(_) => Ok(attempt),
        }
    }

    fn note(&self, name: &LockName, least: FencingToken) {
        let mut names = self.names();
        if names.len() >= MOST_REMEMBERED {
            names.clear();
        }
        names.insert(name.clone(), least);
    }

    fn names(&self) -> MutexGuard<'_, HashMap<LockName, FencingToken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes the counter of `home` no less than `least`. Returns whether it is; what is not known, since somebody has the
/// lock, is no error.
async fn skip(home: &Member, name: &LockName, least: FencingToken) -> Result<bool, BackendError> {
    let ttl = Ttl::new(UNCLAIMED_GRANT_TTL).unwrap_or_default();
    let claim = of_nobody(name, "leasehold: skips tokens".to_owned(), ttl)?;
    let owner = claim.owner;
    let grant = match home.named(home.backend.try_acquire(&claim, None).await)? {
        Attempt::Granted(grant) => grant,
        Attempt::Busy(_) => return Ok(false),
    };
    let mut last = grant.token.get();
    while last < least.get() {
        let tokens = u32::try_from(least.get() - last).unwrap_or(u32::MAX);
        let hold = Reservation { name: name.clone(), owner, tokens, yields: false };
        match home.named(home.backend.release_or_reserve(&hold).await)? {
            Reserved::Tokens(all) if all.count() == tokens => {
                last = all.first().get() + u64::from(tokens) - 1;
            }
            Reserved::Tokens(_) | Reserved::Ended(_) => break,
        }
    }
    home.named(home.backend.release(name, owner).await)?;
    match last < least.get() {
        true => home.named(Err(BackendError::transient(
            home.backend.capabilities().backend,
            Outcome::NotApplied,
            format!("the lock moved here after token {least}, and its counter is at {last}"),
            "it grants the lock once its clock has passed that token",
        ))),
        false => Ok(true),
    }
}
