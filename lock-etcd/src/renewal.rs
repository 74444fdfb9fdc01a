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
    pub(crate) async fn extend_all(&self, renewals: &[Renewal]) -> Vec<Answer> {
        let asked = SystemClock.now();
        self.keeper.ensure_running();
        let mut answers: HashMap<OwnerId, Answer> = HashMap::new();
        let mut holds = Vec::new();
        let keys = renewals.iter().map(|renewal| self.key_of(&renewal.name, renewal.owner));
        for (renewal, key) in renewals.iter().zip(join_all(keys).await) {
            match key.and_then(|key| self.noted(renewal, key)) {
                Ok(hold) => holds.extend(hold),
                Err(error) => drop(answers.insert(renewal.owner, Err(error))),
            }
        }
        for batch in on_one_session(&holds) {
            let answered = self.extend_batch(&batch, asked).await;
            let owners = batch.iter().map(|hold| hold.renewal.owner);
            answers.extend(owners.zip(answered));
        }
        let answer = |renewal: &Renewal| answers.get(&renewal.owner).cloned();
        renewals.iter().map(|renewal| answer(renewal).unwrap_or(Ok(Extension::Lost))).collect()
    }

    /// A hold that has this key, noted as one that is renewed; `None` if it is over.
    fn noted<'a>(
        &self,
        renewal: &'a Renewal,
        key: Option<Arc<str>>,
    ) -> Result<Option<Hold<'a>>, BackendError> {
        let Some(key) = key else { return Ok(None) };
        let session = self.claims.renewing(renewal, &key)?;
        Ok(session.map(|session| Hold { renewal, key, session }))
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
