//! Abilities beyond the four verbs: token ranges, records of runs, operators.

use async_trait::async_trait;
use lock_core::backend::{Record, Recording, RecordsRuns, Reservation, Reserved, ReservesTokens};
use lock_core::{
    BackendError, DistributedLock, Finding, Holder, LockAdmin, LockName, LockState, Occurrence,
    RecordedRun, Whom,
};

use super::PostgresBackend;
use crate::error::unreadable;
use crate::table::answers;
use crate::{doctor, reply};

#[async_trait]
impl ReservesTokens for PostgresBackend {
    async fn release_or_reserve(&self, hold: &Reservation) -> Result<Reserved, BackendError> {
        let call = self.server.call("reserve").text(hold.name.as_str()).owner(hold.owner);
        let call = call.number(hold.tokens.into()).flag(hold.yields);
        match answers::reserved(&self.server.row(&call, answers::RESERVATION).await?)? {
            Some(tokens) => Ok(Reserved::Tokens(tokens)),
            None => self.release(&hold.name, hold.owner).await.map(Reserved::Ended),
        }
    }
}

#[async_trait]
impl RecordsRuns for PostgresBackend {
    async fn record(&self, record: &Record) -> Result<Recording, BackendError> {
        let remember = i64::try_from(record.remember_millis()).unwrap_or(i64::MAX);
        let token = i64::try_from(record.token.get()).unwrap_or(i64::MAX);
        let call = self.server.call("record").text(record.name.as_str()).owner(record.owner);
        let call = call.number(token).text(record.occurrence.as_str()).number(remember);
        answers::recording(&self.server.row(&call, answers::RECORD).await?)
    }

    async fn runs(
        &self,
        name: &LockName,
        of: Option<&Occurrence>,
    ) -> Result<Vec<RecordedRun>, BackendError> {
        let call =
            self.server.call("runs").text(name.as_str()).optional_text(of.map(Occurrence::as_str));
        self.server.rows(&call).await?.iter().map(answers::run).collect()
    }

    async fn forget(&self, name: &LockName, occurrence: &Occurrence) -> Result<bool, BackendError> {
        let call = self.server.call("forget").text(name.as_str()).text(occurrence.as_str());
        reply::get(&self.server.row(&call, answers::RECORD).await?, 0, answers::RECORD)
    }
}

#[async_trait]
impl LockAdmin for PostgresBackend {
    async fn inspect(&self, name: &LockName) -> Result<LockState, BackendError> {
        let call = self.server.call("list").text(name.as_str()).flag(true).number(1);
        let state = answers::states(&self.server.rows(&call).await?)?.pop();
        state.ok_or_else(|| unreadable("the state of a lock"))
    }

    async fn list(&self, prefix: &str, limit: usize) -> Result<Vec<LockState>, BackendError> {
        // Postgres text has no NUL, and neither has any name.
        if prefix.contains('\0') {
            return Ok(Vec::new());
        }
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let call = self.server.call("list").text(prefix).flag(false).number(limit);
        answers::states(&self.server.rows(&call).await?)
    }

    async fn evict(&self, name: &LockName, whom: &Whom) -> Result<Vec<Holder>, BackendError> {
        let call = self.server.call("evict").text(name.as_str());
        let digits = match whom {
            Whom::All => None,
            Whom::Owner(digits) => Some(&**digits),
        };
        let call = call.optional_text(digits).number(self.server.clock_limit());
        let rows = self.server.rows(&call).await?;
        rows.iter().filter_map(|row| answers::evicted(row).transpose()).collect()
    }

    async fn doctor(&self, _prefix: &str) -> Result<Vec<Finding>, BackendError> {
        doctor::examine(&self.server).await
    }
}
