//! Runs once: holds that outlast their work, and records of runs. Each has a separate lease that nobody renews, so
//! that it expires by the server's clock.
//!
//! ```text
//!   held ── release_after ──▶ retired: its value says so, its place stays ── the lease ends ──▶ free
//!     └──── record ─────────▶ a key of the run ── the lease ends ──▶ forgotten
//! ```
//!
//! If the step after a lease's grant fails, the lease is revoked, or expires.

use std::time::Duration;

use etcd_client::{Client, GetOptions, KeyValue, Txn};
use lock_core::backend::{Record, Recording, Release};
use lock_core::{BackendError, FencingToken, LockName, Occurrence, OwnerId, RecordedRun, Ttl};

use crate::operations::cluster::Cluster;
use crate::protocol::requests;
use crate::protocol::view::{only, unless_retired};
use crate::sessions::claims::whole_seconds;
use crate::sessions::session::Session;
use crate::wire::answer::Answer;
use crate::wire::error::not_understood;

impl Cluster {
    /// Leaves the hold of `owner` to nobody, for `delay` (C41).
    pub(crate) async fn release_after(
        &self,
        name: &LockName,
        owner: OwnerId,
        delay: Ttl,
    ) -> Result<Release, BackendError> {
        self.waiters.forget(owner);
        let Some(key) = self.key_of(name, owner).await? else { return Ok(Release::NotHeld) };
        let get = |mut client: Client| async move { client.get(&*key, None).await };
        let held = only(&self.server.on_store(get).await?);
        let Some(held) = held.filter(|held| held.value.owner == Some(owner)) else {
            self.claims.forget(owner, &self.root.claims(name));
            return Ok(Release::NotHeld);
        };
        let range = self.root.claims(name);
        let retire = |lease| requests::retire(&range, &held, lease);
        let done = |answer: &Answer| Ok(answer.succeeded);
        match self.on_own_lease(delay.as_duration(), retire, done).await? {
            true => {
                self.claims.retire(owner, delay);
                Ok(Release::Released)
            }
            false => Ok(Release::NotHeld),
        }
    }

    /// Records a successful run, if its hold is still valid (C42).
    pub(crate) async fn record(&self, record: &Record) -> Result<Recording, BackendError> {
        let Some(own) = self.key_of(&record.name, record.owner).await? else {
            return Ok(Recording::Lost);
        };
        self.floors.get().await?;
        let Some(revision) = self.floors.revision(record.token) else {
            return Ok(Recording::Lost);
        };
        let run = self.root.run(&record.name, &record.occurrence);
        let put = |lease| requests::record(&own, revision, &run, record.token, lease);
        let done = |answer: &Answer| {
            Ok(unless_retired(answer)?.is_some_and(|recorded| recorded.succeeded))
        };
        match self.on_own_lease(record.remember, put, done).await? {
            true => Ok(Recording::Recorded),
            false => Ok(Recording::Lost),
        }
    }

    pub(crate) async fn recorded(
        &self,
        name: &LockName,
        occurrence: &Occurrence,
    ) -> Result<Option<FencingToken>, BackendError> {
        let run = self.root.run(name, occurrence);
        let key = run.clone();
        let get = |mut client: Client| async move { client.get(key, None).await };
        let found = self.server.on_store(get).await?;
        let Some(record) = found.kvs().first() else { return Ok(None) };
        let token = record.value_str().ok().and_then(|token| token.parse().ok());
        let remedy = "the run may then run again";
        token.map(Some).ok_or_else(|| not_understood(&run, "the record of a run", remedy))
    }

    /// Returns the runs of a lock. A record that is not understood is not ours, and is skipped.
    pub(crate) async fn runs(&self, name: &LockName) -> Result<Vec<RecordedRun>, BackendError> {
        let prefix = self.root.runs(name);
        let options = GetOptions::new().with_prefix();
        let get = |mut client: Client| async move { client.get(prefix, Some(options)).await };
        let found = self.server.on_store(get).await?;
        let run = |record: &KeyValue| {
            let token = record.value_str().ok()?.parse().ok()?;
            Some(RecordedRun::new(self.root.occurrence(name, record.key())?, token))
        };
        Ok(found.kvs().iter().filter_map(run).collect())
    }

    /// Removes the record of a run. Its empty lease expires.
    pub(crate) async fn forget(
        &self,
        name: &LockName,
        occurrence: &Occurrence,
    ) -> Result<bool, BackendError> {
        let key = self.root.run(name, occurrence);
        let delete = |mut client: Client| async move { client.delete(key, None).await };
        Ok(self.server.on_store(delete).await?.deleted() > 0)
    }

    /// Carries out a transaction that puts a key on a new lease, which lasts for at least `span` from now. Returns
    /// true if the transaction succeeded.
    async fn on_own_lease(
        &self,
        span: Duration,
        put: impl FnOnce(i64) -> Txn,
        done: impl FnOnce(&Answer) -> Result<bool, BackendError>,
    ) -> Result<bool, BackendError> {
        let lease = Session::new(self.server.clone(), whole_seconds(span));
        lease.last_for(span).await?;
        let done = done(&self.server.txn(put(lease.id())).await?)?;
        if !done {
            // The lease has no key. If it is not revoked, it expires.
            let _ = lease.revoke().await;
        }
        Ok(done)
    }
}
