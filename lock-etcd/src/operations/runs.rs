//! Records of runs. Each has a separate lease that nobody renews, so that it expires by the server's clock.
//!
//! ```text
//!   held ── record ──▶ a key of the run ── the lease ends ──▶ forgotten
//! ```
//!
//! R1: a lease that its key has left, or never had, is revoked ([`KeyLease`]).

use async_trait::async_trait;
use etcd_client::{Client, DeleteResponse, GetOptions, KeyValue};
use lock_core::backend::{Record, Recording, RecordsRuns};
use lock_core::{BackendError, FencingToken, LockName, Occurrence, RecordedRun};

use crate::operations::backend::EtcdBackend;
use crate::protocol::requests;
use crate::protocol::view::replaced;
use crate::sessions::key_lease::KeyLease;
use crate::sessions::pool::whole_seconds;
use crate::sessions::session::{Session, revoke};
use crate::wire::error::not_understood;

#[async_trait]
impl RecordsRuns for EtcdBackend {
    /// Records a successful run, if its hold is still valid (C42).
    async fn record(&self, record: &Record) -> Result<Recording, BackendError> {
        let Some(own) = self.key_of(&record.name, record.owner).await? else {
            return Ok(Recording::Lost);
        };
        self.floors.get().await?;
        let Some(revision) = self.floors.revision(record.token) else {
            return Ok(Recording::Lost);
        };
        let run = self.root.run(&record.name, &record.occurrence);
        let session = Session::new(self.server.clone(), whole_seconds(record.remember));
        let lease = KeyLease::note(&self.claims, session.id(), run.as_bytes(), Some(record.owner));
        self.keeper.ensure_running();
        session.last_for(record.remember).await?;
        let put = requests::record(&own, revision, &run, record.token, session.id());
        let answer = self.server.txn(put).await?;
        if !answer.succeeded {
            // After a failure the keeper tries again.
            let _ = Box::pin(lease.end(&self.server)).await;
            return Ok(Recording::Lost);
        }
        lease.settled();
        self.end_lease_of(replaced(&answer)).await;
        Ok(Recording::Recorded)
    }

    /// Returns the runs of a lock. A record that is not understood is not ours, and is skipped in a list.
    async fn runs(
        &self,
        name: &LockName,
        of: Option<&Occurrence>,
    ) -> Result<Vec<RecordedRun>, BackendError> {
        let (key, options) = match of {
            Some(of) => (self.root.run(name, of), None),
            None => (self.root.runs(name), Some(GetOptions::new().with_prefix())),
        };
        let found = self.server.get(&*key, options).await?;
        let unreadable =
            || not_understood(&key, "the record of a run", "the run may then run again");
        let run = |record: &KeyValue| {
            let occurrence = self.root.occurrence(name, record.key());
            let run =
                occurrence.zip(token_in(record)).map(|(of, token)| RecordedRun::new(of, token));
            run.map(Ok).or_else(|| of.map(|_| Err(unreadable())))
        };
        found.kvs().iter().filter_map(run).collect()
    }

    /// Removes the record of a run by the end of its lease, in one step: an answer that is lost leaves no lease behind.
    async fn forget(&self, name: &LockName, occurrence: &Occurrence) -> Result<bool, BackendError> {
        let key = self.root.run(name, occurrence);
        let found = self.server.get(&*key, None).await?;
        match found.kvs().first() {
            None => Ok(false),
            Some(record) if record.lease() != 0 && token_in(record).is_some() => {
                revoke(&self.server, record.lease()).await.map(|()| true)
            }
            // The record is not ours.
            Some(_) => {
                let delete = |mut client: Client| async move { client.delete(key, None).await };
                let deleted = self.server.on_store(DeleteResponse::header, delete).await?;
                Ok(deleted.deleted() > 0)
            }
        }
    }
}

impl EtcdBackend {
    /// Ends the separate lease of a record that was replaced. After a failure the keeper tries again.
    async fn end_lease_of(&self, record: Option<&KeyValue>) {
        let record = record.filter(|record| record.lease() != 0 && token_in(record).is_some());
        if let Some(record) = record {
            let lease = KeyLease::note(&self.claims, record.lease(), record.key(), None);
            self.keeper.ensure_running();
            let _ = Box::pin(lease.end(&self.server)).await;
        }
    }
}

/// Returns the token of a record; `None` if it is not understood.
fn token_in(record: &KeyValue) -> Option<FencingToken> {
    record.value_str().ok()?.parse().ok()
}
