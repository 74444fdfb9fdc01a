//! Extending holds: the session is renewed for all of them at once, and each proves that it is there.
//!
//! A session that was renewed proves nothing of a hold: its key may have been deleted, and some versions
//! of etcd confirm leases that have expired (etcd#14758). So the key is the proof. A single hold reads it.
//! Many ask which keys hang on their session, in one request for all, and read only those that are missing
//! in the answer.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures_util::future::join_all;
use lock_core::backend::{Extension, Renewal};
use lock_core::{BackendError, Clock, FencingToken, Moment, OwnerId, SystemClock};

use crate::cluster::Cluster;
use crate::error::overtaken;
use crate::requests;
use crate::session::Session;
use crate::stored_claim::StoredClaim;
use crate::view::{entries, unless_retired};

/// How many keys one request reads. The server takes up to 128 operations.
const BATCH: usize = 100;

type Answer = Result<Extension, BackendError>;

/// A hold that is to last longer.
struct Hold<'a> {
    renewal: &'a Renewal,
    key: Arc<str>,
    session: Arc<Session>,
}

impl Cluster {
    pub(crate) async fn extend(&self, renewals: &[Renewal]) -> Vec<Answer> {
        let asked = SystemClock.now();
        self.keeper.ensure_running();
        let mut answers: HashMap<OwnerId, Answer> = HashMap::new();
        let (mut holds, mut ending) = (Vec::new(), Vec::new());
        let keys = renewals.iter().map(|renewal| self.key_of(&renewal.name, renewal.owner));
        for (renewal, key) in renewals.iter().zip(join_all(keys).await) {
            let Some(key) = key.transpose() else { continue };
            match key.and_then(|key| Ok((self.claims.renewing(renewal, &key)?, key))) {
                Ok((Some(session), key)) => holds.push(Hold { renewal, key, session }),
                Ok((None, key)) => ending.push((renewal, key)),
                Err(error) => drop(answers.insert(renewal.owner, Err(error))),
            }
        }
        for batch in on_one_session(&holds) {
            let answered = self.extend_batch(&batch, asked).await;
            let owners = batch.iter().map(|hold| hold.renewal.owner);
            answers.extend(owners.zip(answered));
        }
        let ended = ending.iter().map(|(renewal, key)| self.has_ended(renewal, key));
        let ended = join_all(ended).await;
        answers.extend(ending.iter().map(|(renewal, _)| renewal.owner).zip(ended));
        let answer = |renewal: &Renewal| answers.get(&renewal.owner).cloned();
        renewals.iter().map(|renewal| answer(renewal).unwrap_or(Ok(Extension::Lost))).collect()
    }

    /// Nobody believed in the hold any more, and its deletion is under way. Until the key is gone, the deletion may yet
    /// fail, or the key may have moved to the session of another client, which renews it.
    async fn has_ended(&self, renewal: &Renewal, key: &str) -> Answer {
        let found = entries(&self.server.txn(requests::read([key])).await?)?;
        match found.into_iter().flatten().any(|entry| entry.token == renewal.token) {
            true => Err(overtaken("the hold is being deleted")),
            false => Ok(Extension::Lost),
        }
    }

    /// Extends holds that are to be on one session.
    async fn extend_batch(&self, holds: &[&Hold<'_>], asked: Moment) -> Vec<Answer> {
        let Some(first) = holds.first() else { return Vec::new() };
        let ttl = holds.iter().map(|hold| hold.renewal.ttl.as_duration()).max().unwrap_or_default();
        if let Err(error) = first.session.last_for(ttl).await {
            return holds.iter().map(|_| Err(error.clone())).collect();
        }
        let on_session = keys_on(&first.session, holds).await;
        let (proven, unproven): (Vec<&Hold<'_>>, Vec<_>) = holds.iter().partition(|hold| {
            on_session.contains(hold.key.as_bytes()) && self.claims.is_known(hold.renewal)
        });
        let proven = proven.into_iter().map(|hold| (hold.renewal.owner, Ok(hold.extended(asked))));
        let mut answers: HashMap<OwnerId, Answer> = proven.collect();
        for batch in unproven.chunks(BATCH) {
            answers.extend(self.prove(batch, asked).await);
        }
        let answer = |hold: &&Hold<'_>| answers.remove(&hold.renewal.owner);
        holds.iter().map(answer).map(|answer| answer.unwrap_or(Ok(Extension::Lost))).collect()
    }

    /// Reads the keys of at most [`BATCH`] holds, and moves those that are not on their session.
    async fn prove(&self, holds: &[&Hold<'_>], asked: Moment) -> Vec<(OwnerId, Answer)> {
        let read = requests::read(holds.iter().map(|hold| hold.key.as_bytes()));
        let found = self.server.txn(read).await.and_then(|answer| entries(&answer));
        let found = match found {
            Ok(found) => found,
            Err(error) => {
                return holds.iter().map(|hold| (hold.renewal.owner, Err(error.clone()))).collect();
            }
        };
        let settled = holds.iter().zip(found).map(async |(hold, entry)| {
            (hold.renewal.owner, self.settle_hold(hold, entry, asked).await)
        });
        join_all(settled).await
    }

    async fn settle_hold(
        &self,
        hold: &Hold<'_>,
        entry: Option<StoredClaim>,
        asked: Moment,
    ) -> Answer {
        let Renewal { owner, token, .. } = *hold.renewal;
        let settled = match entry.filter(|entry| entry.token == token) {
            Some(entry) => self.settle(&hold.key, owner, token, entry.lease, &hold.session).await?,
            None => Extension::Lost,
        };
        if settled == Extension::Lost {
            self.claims.lost(owner, token);
            return Ok(Extension::Lost);
        }
        Ok(hold.extended(asked))
    }

    /// Lets the key of a hold, which was seen on the lease `from`, be on its session.
    pub(crate) async fn settle(
        &self,
        key: &str,
        owner: OwnerId,
        token: FencingToken,
        from: i64,
        session: &Arc<Session>,
    ) -> Answer {
        let extended = Extension::Extended(session.ttl());
        if from != session.id() {
            let txn = requests::reattach(key, token, from, session.id());
            // C41: once its work has ended, it is nobody's.
            let Some(moved) = unless_retired(&self.server.txn(txn).await?)? else {
                return Ok(Extension::Lost);
            };
            if !moved.succeeded {
                return match entries(&moved)?.pop().flatten() {
                    Some(_) => Err(overtaken("the hold changed while it was extended")),
                    None => Ok(Extension::Lost),
                };
            }
        }
        self.claims.settled(owner, token);
        Ok(extended)
    }
}

impl Hold<'_> {
    /// The server keeps the hold for as long as its session.
    fn extended(&self, asked: Moment) -> Extension {
        Extension::Extended(self.session.left(asked))
    }
}

/// Which keys of the holds are on their session, if many ask. What is not told is read key by key.
async fn keys_on<'a>(session: &Session, holds: &'a [&Hold<'_>]) -> HashSet<&'a [u8]> {
    if holds.len() < 2 {
        return HashSet::new();
    }
    let Ok(census) = session.census().await else { return HashSet::new() };
    // Very many keys may be on it, of which few are asked for.
    let mut asked: HashSet<&[u8]> = holds.iter().map(|hold| hold.key.as_bytes()).collect();
    census.keys().iter().filter_map(|key| asked.take(key.as_slice())).collect()
}

fn on_one_session<'a, 'b>(holds: &'a [Hold<'b>]) -> Vec<Vec<&'a Hold<'b>>> {
    let mut alike: HashMap<i64, Vec<&Hold<'_>>> = HashMap::new();
    for hold in holds {
        alike.entry(hold.session.id()).or_default().push(hold);
    }
    alike.into_values().collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use etcd_client::ConnectOptions;
    use lock_core::{Lease, LockRequest};

    use super::*;
    use crate::keys::Root;
    use crate::options::Target;

    /// C8: while its deletion is under way, another client may have taken the hold over. So the server is asked.
    #[tokio::test]
    async fn c08_a_hold_that_is_being_deleted_is_not_lost_before_the_server_says_so() {
        let endpoints = vec!["127.0.0.1:1".to_owned()];
        let root = Root::new("/root").expect("a root");
        let cluster = Cluster::new(Target { endpoints, options: ConnectOptions::new(), root });
        let claim = LockRequest::new("a").claim().expect("a good claim");
        let lease = format!("lease1:{}:7:30000:a", claim.owner.expose());
        let renewal = Renewal::new(&Lease::import(&lease).expect("a lease"), claim.ttl);
        cluster.claims.begin(&claim);
        let later = SystemClock.now().after(Duration::from_secs(3600));
        let _deletion = cluster.claims.expired(later);
        let answers = cluster.extend(&[renewal]).await;
        assert!(matches!(answers[..], [Err(_)]), "{answers:?}");
    }
}
