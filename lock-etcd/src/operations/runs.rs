//! Runs once: holds that outlast their work, and records of runs. Each has a separate lease that nobody renews, so
//! that it expires by the server's clock.
//!
//! ```text
//!   held ── release_after ──▶ retired: its value says so, its place stays ── the lease ends ──▶ free
//!     └──── record ─────────▶ a key of the run ── the lease ends ──▶ forgotten
//! ```
//!
//! R1: a lease that its key has left, or never had, is revoked ([`KeyLease`]).

use std::time::Duration;

use async_trait::async_trait;
use etcd_client::{Client, DeleteOptions, DeleteResponse, GetOptions, KeyValue, Txn};
use lock_core::backend::{Record, Recording, RecordsRuns, Release};
use lock_core::{BackendError, FencingToken, LockName, Occurrence, OwnerId, RecordedRun, Ttl};

use crate::layout::stored_claim::StoredClaim;
use crate::operations::backend::EtcdBackend;
use crate::protocol::requests;
use crate::protocol::view::{only, replaced, unless_retired};
use crate::sessions::key_lease::KeyLease;
use crate::sessions::pool::whole_seconds;
use crate::sessions::session::Session;
use crate::wire::answer::Answer;
use crate::wire::error::not_understood;

#[async_trait]
impl RecordsRuns for EtcdBackend {
    /// Leaves the hold of `owner` to nobody, for `delay` (C41).
    async fn release_after(
        &self,
        name: &LockName,
        owner: OwnerId,
        delay: Ttl,
    ) -> Result<Release, BackendError> {
        self.waiters.forget(owner);
        let Some(key) = self.key_of(name, owner).await? else { return Ok(Release::NotHeld) };
        let held = only(&self.server.get(key.as_bytes(), None).await?);
        let Some(held) = held.filter(|held| held.value.owner == Some(owner)) else {
            self.claims.forget(owner, &self.root.claims(name));
            return Ok(Release::NotHeld);
        };
        let range = self.root.claims(name);
        let retire = |lease| requests::retire(&range, &held, lease);
        let span = delay.as_duration();
        let retired = self.on_own_lease(&held.key, owner, span, retire, |answer| Ok(Some(answer)));
        let Some(former) = retired.await? else { return Ok(Release::NotHeld) };
        self.claims.retire(owner, delay);
        // A repeated call has found the retired hold.
        if let Some(former) = former.as_ref().map(StoredClaim::of).filter(|it| it.value.is_retired)
        {
            self.end_lease(former.lease, &former.key).await;
        }
        Ok(Release::Released)
    }

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
        let put = |lease| requests::record(&own, revision, &run, record.token, lease);
        let read = |answer| unless_retired(&answer);
        let recorded = self.on_own_lease(run.as_bytes(), record.owner, record.remember, put, read);
        let Some(former) = recorded.await? else { return Ok(Recording::Lost) };
        self.end_lease_of(former.as_ref()).await;
        Ok(Recording::Recorded)
    }

    async fn recorded(
        &self,
        name: &LockName,
        occurrence: &Occurrence,
    ) -> Result<Option<FencingToken>, BackendError> {
        let run = self.root.run(name, occurrence);
        let found = self.server.get(&*run, None).await?;
        let Some(record) = found.kvs().first() else { return Ok(None) };
        let remedy = "the run may then run again";
        token_in(record)
            .map(Some)
            .ok_or_else(|| not_understood(&run, "the record of a run", remedy))
    }

    /// Returns the runs of a lock. A record that is not understood is not ours, and is skipped.
    async fn runs(&self, name: &LockName) -> Result<Vec<RecordedRun>, BackendError> {
        let options = GetOptions::new().with_prefix();
        let found = self.server.get(self.root.runs(name), options).await?;
        let run = |record: &KeyValue| {
            Some(RecordedRun::new(self.root.occurrence(name, record.key())?, token_in(record)?))
        };
        Ok(found.kvs().iter().filter_map(run).collect())
    }

    /// Removes the record of a run, and its lease.
    async fn forget(&self, name: &LockName, occurrence: &Occurrence) -> Result<bool, BackendError> {
        let key = self.root.run(name, occurrence);
        let options = Some(DeleteOptions::new().with_prev_key());
        let delete = |mut client: Client| async move { client.delete(key, options).await };
        let deleted = self.server.on_store(DeleteResponse::header, delete).await?;
        self.end_lease_of(deleted.prev_kvs().first()).await;
        Ok(deleted.deleted() > 0)
    }
}

impl EtcdBackend {
    /// Carries out a transaction of `owner` that puts a key on a new lease, which lasts for at least `span` from now.
    /// Returns the former state of the key; `None` if the transaction did not succeed.
    async fn on_own_lease(
        &self,
        key: &[u8],
        owner: OwnerId,
        span: Duration,
        put: impl FnOnce(i64) -> Txn,
        read: impl FnOnce(Answer) -> Result<Option<Answer>, BackendError>,
    ) -> Result<Option<Option<KeyValue>>, BackendError> {
        let session = Session::new(self.server.clone(), whole_seconds(span));
        let lease = KeyLease::note(&self.claims, session.id(), key, Some(owner));
        self.keeper.ensure_running();
        session.last_for(span).await?;
        let answer = read(self.server.txn(put(session.id())).await?)?;
        let Some(answer) = answer.filter(|answer| answer.succeeded) else {
            // After a failure the keeper tries again.
            let _ = Box::pin(lease.end(&self.server)).await;
            return Ok(None);
        };
        lease.settled();
        Ok(Some(replaced(&answer).cloned()))
    }

    /// Ends the separate lease of a key that has left it. After a failure the keeper tries again.
    pub(crate) async fn end_lease(&self, id: i64, key: &[u8]) {
        if id != 0 {
            let lease = KeyLease::note(&self.claims, id, key, None);
            self.keeper.ensure_running();
            let _ = Box::pin(lease.end(&self.server)).await;
        }
    }

    /// Does the same for a record that was replaced or deleted.
    async fn end_lease_of(&self, record: Option<&KeyValue>) {
        if let Some(record) = record.filter(|record| token_in(record).is_some()) {
            self.end_lease(record.lease(), record.key()).await;
        }
    }
}

/// Returns the token of a record; `None` if it is not understood.
fn token_in(record: &KeyValue) -> Option<FencingToken> {
    record.value_str().ok()?.parse().ok()
}
