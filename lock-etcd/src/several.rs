//! C39: several locks by one transaction.

use lock_core::BackendError;
use lock_core::backend::{Claim, Grant};

use crate::answer::Answer;
use crate::attempt::Try;
use crate::cluster::Cluster;
use crate::requests;
use crate::standing::first_slots;
use crate::stored_claim::{StoredClaim, token};
use crate::view::entries;

impl Cluster {
    /// Takes those at the front of `claims` that nobody has a claim on: all by one transaction, if nobody has one on
    /// any. Otherwise that transaction tells how many they are, and a second one takes those.
    pub(crate) async fn take_while_free(
        &self,
        claims: &[Claim],
    ) -> Result<Vec<Grant>, BackendError> {
        let tries: Vec<_> = claims.iter().map(|claim| self.begin(claim)).collect();
        let answer = self.take_all(&tries).await?;
        if answer.succeeded {
            return self.all_taken(&tries, &answer);
        }
        let seen = entries(&answer)?;
        let free = tries.iter().zip(&seen).take_while(|(_, first)| first.is_none()).count();
        let (front, rest) = tries.split_at(free);
        rest.iter().zip(seen.iter().skip(free)).for_each(|(this, first)| self.refused(this, first));
        // If all seem to be free, one of the claims was withdrawn, or another came and went.
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
        let mut sessions: Vec<_> = tries.iter().map(|this| &this.hold).collect();
        for this in tries {
            this.hold.last_for(this.claim.ttl.as_duration()).await?;
        }
        let asked = tries.iter().map(|this| (&this.keys, this.claim, this.hold.id()));
        let txn = requests::take_all(asked);
        sessions.dedup_by_key(|session| session.id());
        let asks = |this: &Try<'_>| self.claims.asks(this.claim.owner, &this.keys.own);
        let asked = tries.iter().map(asks).collect::<Result<Vec<_>, _>>()?;
        let answer = self.server.txn(txn).await;
        asked.iter().for_each(|asked| self.claims.answered(asked, &answer));
        self.written_on(sessions.into_iter(), answer).await
    }

    fn all_taken(&self, tries: &[Try<'_>], answer: &Answer) -> Result<Vec<Grant>, BackendError> {
        // The keys were made in one revision, which is the token of each.
        let token = token(answer.revision)?;
        let grant = |this| self.taken(this, token, first_slots(this.claim.kind));
        Ok(tries.iter().map(grant).collect())
    }

    /// The claim did not get the lock, on which `first` was made first: its own, if an earlier request of it took the
    /// lock.
    fn refused(&self, this: &Try<'_>, first: &Option<StoredClaim>) {
        let is_own = |first: &StoredClaim| first.key == this.keys.own.as_bytes();
        let waits = self.waiters.place(this.claim.owner).is_some();
        if !waits && !first.as_ref().is_some_and(is_own) {
            self.claims.absent(this.claim.owner);
        }
    }
}
