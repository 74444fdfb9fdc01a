//! Extends holds: one renewal of the session for all of them, and a proof for each that its key exists.
//!
//! The renewal of a session proves nothing for a hold: its key may have been deleted, and some versions of etcd
//! confirm expired leases (etcd#14758). So the key is the proof. One request reads the keys of [`BATCH`] holds, and
//! no others.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::future::join_all;
use lock_core::backend::{Extension, Renewal};
use lock_core::{BackendError, Clock, Moment, OwnerId, SystemClock};

use crate::layout::stored_claim::StoredClaim;
use crate::operations::backend::EtcdBackend;
use crate::protocol::requests;
use crate::protocol::view::entries;
use crate::sessions::session::Session;
use crate::wire::error::overtaken;

/// Number of keys that one request reads. The server takes up to 128 operations.
const BATCH: usize = 100;

type ExtensionResult = Result<Extension, BackendError>;

/// A hold to extend.
struct Hold<'a> {
    renewal: &'a Renewal,
    /// The revision in which its key was made.
    revision: i64,
    key: Arc<str>,
    /// The session for its key; `None` if nobody believed in the hold any more, and its deletion is in flight.
    session: Option<Arc<Session>>,
}

impl EtcdBackend {
    pub(crate) async fn renew(&self, renewals: &[Renewal]) -> Vec<ExtensionResult> {
        let asked = SystemClock.now();
        let mut answers: HashMap<OwnerId, ExtensionResult> = HashMap::new();
        let mut holds = Vec::new();
        for (renewal, hold) in
            renewals.iter().zip(join_all(renewals.iter().map(|renewal| self.hold(renewal))).await)
        {
            match hold {
                Ok(Some(hold)) => holds.push(hold),
                Ok(None) => {}
                Err(error) => drop(answers.insert(renewal.owner, Err(error))),
            }
        }
        // Now there is something to keep: a keeper that finds nothing ends.
        self.keeper.ensure_running();
        for batch in on_one_session(&holds) {
            let answered = self.extend_batch(&batch, asked).await;
            let owners = batch.iter().map(|hold| hold.renewal.owner);
            answers.extend(owners.zip(answered));
        }
        let answer = |renewal: &Renewal| answers.get(&renewal.owner).cloned();
        renewals.iter().map(|renewal| answer(renewal).unwrap_or(Ok(Extension::Lost))).collect()
    }

    /// Returns the key and the session of a hold; `None` if there is no such hold.
    async fn hold<'a>(&self, renewal: &'a Renewal) -> Result<Option<Hold<'a>>, BackendError> {
        let Some(key) = self.key_of(&renewal.name, renewal.owner).await? else { return Ok(None) };
        self.floors.get().await?;
        let Some(revision) = self.floors.revision(renewal.token) else { return Ok(None) };
        let session = self.claims.renewing(renewal.owner, renewal.ttl, revision, &key)?;
        Ok(Some(Hold { renewal, revision, key, session }))
    }

    /// Extends holds of one session, or holds that are being deleted.
    async fn extend_batch(&self, holds: &[&Hold<'_>], asked: Moment) -> Vec<ExtensionResult> {
        let ttl = holds.iter().map(|hold| hold.renewal.ttl.as_duration()).max().unwrap_or_default();
        if let Some(session) = holds.first().and_then(|first| first.session.as_ref())
            && let Err(error) = session.last_for(ttl).await
        {
            return holds.iter().map(|_| Err(error.clone())).collect();
        }
        let proven = holds.chunks(BATCH).map(|batch| self.prove(batch, asked));
        join_all(proven).await.into_iter().flatten().collect()
    }

    /// Reads the keys of at most [`BATCH`] holds, and moves those on other sessions.
    async fn prove(&self, holds: &[&Hold<'_>], asked: Moment) -> Vec<ExtensionResult> {
        let read = requests::prove(holds.iter().map(|hold| hold.key.as_bytes()));
        match self.server.txn(read).await.and_then(|answer| entries(&answer)) {
            Ok(found) => {
                let found = holds.iter().zip(found);
                join_all(found.map(|(hold, entry)| self.settle_hold(hold, entry, asked))).await
            }
            Err(error) => holds.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn settle_hold(
        &self,
        hold: &Hold<'_>,
        entry: Option<StoredClaim>,
        asked: Moment,
    ) -> ExtensionResult {
        let (owner, revision) = (hold.renewal.owner, hold.revision);
        let entry = entry.filter(|entry| entry.revision == revision);
        match (entry, &hold.session) {
            (Some(entry), Some(session)) => {
                if self.settle_seen(owner, entry, session).await? {
                    return Ok(Extension::Extended(session.left(asked)));
                }
            }
            // Until the key is gone, the deletion may still fail, or another client may have taken the hold over.
            (Some(_), None) => return Err(overtaken("the hold is being deleted")),
            (None, _) => {}
        }
        self.claims.lost(owner, revision);
        Ok(Extension::Lost)
    }

    /// [Settles](Self::settle) a hold whose value was not read.
    async fn settle_seen(
        &self,
        owner: OwnerId,
        seen: StoredClaim,
        session: &Arc<Session>,
    ) -> Result<bool, BackendError> {
        if !self.claims.is_unclaimed(owner) {
            return self.settle(owner, &seen, true, session).await;
        }
        let read = entries(&self.server.txn(requests::read([&*seen.key])).await?)?.pop().flatten();
        match read.filter(|read| read.revision == seen.revision) {
            Some(read) => self.settle(owner, &read, read.is_claimed(), session).await,
            None => Ok(false),
        }
    }

    /// Puts the key of a hold, as it was seen, on its session, and writes that it is held. Returns false if the hold
    /// is over.
    pub(crate) async fn settle(
        &self,
        owner: OwnerId,
        seen: &StoredClaim,
        is_claimed: bool,
        session: &Arc<Session>,
    ) -> Result<bool, BackendError> {
        let stays = seen.lease == session.id() || self.outlasts(owner, seen.lease, session);
        if !is_claimed || !stays {
            let to = match stays {
                true => seen.lease,
                false => self.move_from(owner, seen.lease, session).await?,
            };
            let txn = match is_claimed {
                true => requests::reattach(seen, to),
                false => requests::claim(seen, to),
            };
            let moved = self.server.txn(txn).await?;
            if !moved.succeeded {
                return match entries(&moved)?.pop().flatten() {
                    Some(_) => Err(overtaken("the hold changed while it was extended")),
                    None => Ok(false),
                };
            }
        }
        self.claims.settled(owner);
        Ok(true)
    }
}

impl EtcdBackend {
    /// Returns true if a key is on a session of this client that lasts longer than its session would after a renewal: it
    /// stays there (C10). An extension may have overtaken this one.
    fn outlasts(&self, owner: OwnerId, lease: i64, session: &Session) -> bool {
        self.claims.left_on(owner, lease).is_some_and(|left| left > session.ttl())
    }

    /// Returns the session to which a key moves from this lease. It is of another client, which deletes the key at the
    /// end of its own claim, if the key has not moved. A lease that lasts longer is replaced by a session that lasts as
    /// long (C10, C41).
    async fn move_from(
        &self,
        owner: OwnerId,
        lease: i64,
        session: &Arc<Session>,
    ) -> Result<i64, BackendError> {
        let Some(left) = self.read_left(lease).await?.filter(|left| *left > session.ttl()) else {
            return Ok(session.id());
        };
        let longer = self.claims.goes_to_a_longer(owner, left);
        longer.last_for(left).await?;
        Ok(longer.id())
    }
}

fn on_one_session<'a, 'b>(holds: &'a [Hold<'b>]) -> Vec<Vec<&'a Hold<'b>>> {
    let mut alike: HashMap<Option<i64>, Vec<&Hold<'_>>> = HashMap::new();
    for hold in holds {
        let session = hold.session.as_ref().map(|session| session.id());
        alike.entry(session).or_default().push(hold);
    }
    alike.into_values().collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lock_core::{Lease, LockRequest};

    use super::*;
    use crate::EtcdOptions;

    /// C8: another client may have taken the hold over while its deletion is in flight. So the server is asked.
    #[tokio::test]
    async fn c08_a_hold_that_is_being_deleted_is_not_lost_before_the_server_says_so() {
        let target = EtcdOptions::new("etcd://127.0.0.1:1/root").target();
        let cluster = EtcdBackend::new(target.expect("a good URL"));
        let claim = LockRequest::new("a").claim().expect("a good claim");
        let lease = format!("lease1:{}:7:30000:a", claim.owner.expose());
        let renewal = Renewal::new(&Lease::import(&lease).expect("a lease"), claim.ttl);
        cluster.claims.begin(&claim);
        let later = SystemClock.now().after(Duration::from_secs(3600));
        let _deletion = cluster.claims.expired(later);
        let answers = cluster.renew(&[renewal]).await;
        assert!(matches!(answers[..], [Err(_)]), "{answers:?}");
    }
}
