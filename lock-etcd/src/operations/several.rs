//! C39: several locks by one transaction.

use async_trait::async_trait;
use lock_core::backend::{AcquiresSeveral, Claim, Grant};
use lock_core::{BackendError, Outcome};

use crate::layout::stored_claim::StoredClaim;
use crate::operations::attempt::Try;
use crate::operations::backend::EtcdBackend;
use crate::protocol::requests;
use crate::protocol::standing::first_slots;
use crate::protocol::view::entries;
use crate::wire::answer::Answer;
use crate::wire::error::unreadable;

/// Number of locks that one transaction acquires. The server makes up to 128 comparisons: two for each lock, and one
/// for the floor.
const AT_ONCE: usize = 60;

#[async_trait]
impl AcquiresSeveral for EtcdBackend {
    async fn acquire_while_free(&self, claims: &[Claim]) -> Result<Vec<Grant>, BackendError> {
        let mut grants = Vec::new();
        for some in claims.chunks(AT_ONCE) {
            let taken = match self.take_front(some).await {
                // C15: the earlier locks are held. The caller learns the reason when it asks for the next one.
                Err(error) if !grants.is_empty() && error.outcome() == Outcome::NotApplied => break,
                taken => taken?,
            };
            let all = taken.len() == some.len();
            grants.extend(taken);
            if !all {
                break;
            }
        }
        Ok(grants)
    }
}

impl EtcdBackend {
    /// Acquires all locks by one transaction, if nobody has a claim on any of them. Otherwise its answer shows how
    /// many at the front are free, and a second transaction acquires those.
    async fn take_front(&self, claims: &[Claim]) -> Result<Vec<Grant>, BackendError> {
        let floor = self.floors.get().await?;
        let tries: Vec<_> = claims.iter().map(|claim| self.begin(claim, floor)).collect();
        let answer = self.take_all(&tries).await?;
        if answer.succeeded {
            return self.all_taken(&tries, &answer);
        }
        let seen = entries(&answer)?;
        let free = tries.iter().zip(&seen).take_while(|(_, first)| first.is_none()).count();
        let (front, rest) = tries.split_at(free);
        rest.iter().zip(seen.iter().skip(free)).for_each(|(this, first)| self.refused(this, first));
        // If all seem free, one of the claims was withdrawn, or another claim came and went.
        if !front.is_empty() && !rest.is_empty() {
            let answer = self.take_all(front).await?;
            if answer.succeeded {
                return self.all_taken(front, &answer);
            }
        }
        front.iter().for_each(|this| self.refused(this, &None));
        Ok(Vec::new())
    }

    async fn take_all(&self, tries: &[Try<'_>]) -> Result<Answer, BackendError> {
        let mut sessions: Vec<_> = tries.iter().map(|this| &this.session).collect();
        for this in tries {
            this.session.last_for(this.claim.ttl.as_duration()).await?;
        }
        let asked = tries.iter().map(|this| (&this.keys, this.claim, this.session.id()));
        let Some(floor) = tries.first().map(|this| this.floor) else {
            return Err(unreadable("no claim"));
        };
        let txn = self.floors.guard(floor, requests::take_all(asked));
        sessions.dedup_by_key(|session| session.id());
        let asks = |this: &Try<'_>| self.claims.asks(this.claim.owner, &this.keys.own);
        let asked = tries.iter().map(asks).collect::<Result<Vec<_>, _>>()?;
        let answer = self.server.txn(txn).await;
        asked.iter().for_each(|asked| self.claims.answered(asked, &answer));
        self.floors.guarded(&self.written_on(sessions, answer).await?)
    }

    fn all_taken(&self, tries: &[Try<'_>], answer: &Answer) -> Result<Vec<Grant>, BackendError> {
        // All keys were made in one revision, which gives the token of each.
        let grant =
            |this: &Try<'_>| self.taken(this, answer.revision, first_slots(this.claim.kind));
        tries.iter().map(grant).collect()
    }

    /// Notes a claim that did not get the lock. `first` is the first claim on the lock: it may be its own, if an
    /// earlier request of it acquired the lock.
    fn refused(&self, this: &Try<'_>, first: &Option<StoredClaim>) {
        let is_own = |first: &StoredClaim| first.key == this.keys.own.as_bytes();
        let waits = self.waiters.place(this.claim.owner).is_some();
        if !waits && !first.as_ref().is_some_and(is_own) {
            self.claims.absent(this.claim.owner);
        }
    }
}
