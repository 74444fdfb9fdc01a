//! What the server knows of advisory locks, whoever holds them.
//!
//! A row tells of a grant: whose it is, until when, and which process of the server holds the lock. The server's
//! own list of locks says whether that process still does. A hold lives for as long as both say so.

use std::time::Duration;

use lock_core::backend::{Claim, Extension, Renewal, ServerTime};
use lock_core::{
    BackendError, Contention, FencingToken, Holder, Label, Lease, LockName, LockState, LostReason,
    OwnerId, Ttl, Whom,
};
use sqlx::Row;
use sqlx::postgres::PgRow;
use tokio::time::{sleep, timeout};

use super::silence::ANSWER_LIMIT;
use crate::error::unreadable;
use crate::reply::{self, get, micros};
use crate::server::Server;
use crate::sql::{Call, Flag, digits, granted_at};

/// How often a client that attached the lease of another looks at the hold.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Whether a lock that is busy is waited for.
pub(super) struct Waits(pub(super) bool);

/// The holds of one name space, of all clients.
#[derive(Clone)]
pub(super) struct Rows {
    pub(super) server: Server,
}

impl Rows {
    /// A call that takes the lock if it is free, and else waits for it if it is to.
    pub(super) fn call_to_take(&self, claim: &Claim, waits: Waits) -> Call {
        let call = self.call_about("take", &claim.name).number(self.key(&claim.name));
        let call = call.owner(claim.owner).number(millis(claim.ttl)).text(claim.label.as_str());
        let call = call.number(self.server.clock_limit()).flag(Flag(waits.0));
        match waits {
            Waits(true) => call.then(&self.server.names.function("wait")),
            Waits(false) => call,
        }
    }

    /// A call about one hold. The owner alone does not tell: it may be granted the lock anew.
    pub(super) fn call_of(
        &self,
        function: &str,
        name: &LockName,
        owner: OwnerId,
        token: FencingToken,
    ) -> Call {
        self.call_about(function, name).owner(owner).number(number(token))
    }

    /// A call that frees the lock, over the session that holds it.
    pub(super) fn call_to_release(&self, claim: &Claim, token: FencingToken) -> Call {
        let call = self.call_about("release", &claim.name).number(self.key(&claim.name));
        call.number(number(token))
    }

    fn call_about(&self, function: &str, name: &LockName) -> Call {
        self.server.call(function).text(name.as_str())
    }

    /// The key of the advisory lock.
    fn key(&self, name: &LockName) -> i64 {
        self.server.names.advisory_key(name.as_str())
    }

    /// What is known of the holder; `None` if the session that waits for the lock is not there any more.
    pub(super) async fn look(
        &self,
        name: &LockName,
        process: i32,
    ) -> Result<Option<Contention>, BackendError> {
        const WHAT: &str = "the holder of a lock";
        let call = self.call_about("look", name).number(self.key(name)).number(process.into());
        let row = self.server.row(&call, WHAT).await?;
        match get(&row, 3, WHAT)? {
            true => contention(&row, 0).map(Some),
            false => Ok(None),
        }
    }

    /// Ends a session of ours that waits.
    pub(super) async fn leave(&self, claim: &Claim, process: i32) -> Result<(), BackendError> {
        let call = self.call_about("leave", &claim.name).number(self.key(&claim.name));
        let call = call.owner(claim.owner).number(process.into());
        self.server.rows(&call).await.map(drop)
    }

    /// The lock called `prefix`, or the holds whose names start with it.
    pub(super) async fn states(
        &self,
        prefix: &str,
        whole: bool,
        limit: i64,
    ) -> Result<Vec<LockState>, BackendError> {
        const WHAT: &str = "the state of a lock";
        let call = Call::of_columns(self.columns("waiters"), self.server.names.function("list"));
        let call = call.text(prefix).flag(Flag(whole)).number(limit);
        let state = |row: &PgRow| {
            let name = LockName::new(get::<String>(row, 0, WHAT)?).map_err(|_| unreadable(WHAT))?;
            let waiters = u64::try_from(get::<i64>(row, 6, WHAT)?).ok();
            Ok(LockState::new(name, reply::holder(row)?, waiters))
        };
        self.server.rows(&call).await?.iter().map(state).collect()
    }

    /// Ends the hold of an owner: takes its owner out of its row, and ends its session.
    pub(super) async fn end(
        &self,
        name: &LockName,
        owner: OwnerId,
    ) -> Result<Option<Holder>, BackendError> {
        self.ended_by(self.call_to_end(name).optional_owner(Some(owner)).optional_text(None)).await
    }

    /// Ends the hold in the same way, if it is that of `whom`.
    pub(super) async fn evict(
        &self,
        name: &LockName,
        whom: &Whom,
    ) -> Result<Option<Holder>, BackendError> {
        self.ended_by(self.call_to_end(name).optional_owner(None).optional_text(digits(whom))).await
    }

    fn call_to_end(&self, name: &LockName) -> Call {
        let columns = self.columns("pg_catalog.pg_terminate_backend(process)");
        Call::of_columns(columns, self.server.names.function("end")).text(name.as_str())
    }

    async fn ended_by(&self, call: Call) -> Result<Option<Holder>, BackendError> {
        self.server.rows(&call).await?.first().map_or(Ok(None), reply::holder)
    }

    /// The columns of a holder, as [`reply::holder`] reads them, and one more.
    fn columns(&self, more: &str) -> String {
        let now = format!("{}()", self.server.names.function("now_us"));
        format!("name, owner, token, left_us, label, {}, {more}", granted_at("token", &now))
    }

    /// Extends a hold of any client, if it lives.
    pub(super) async fn extend(&self, renewal: &Renewal) -> Result<Extension, BackendError> {
        const WHAT: &str = "the answer to an extension";
        let call = self.call_of("extend", &renewal.name, renewal.owner, renewal.token);
        let row = self.server.row(&call.number(millis(renewal.ttl)), WHAT).await?;
        match get(&row, 0, WHAT)? {
            true => Ok(Extension::Extended(renewal.ttl.as_duration())),
            false => Ok(Extension::Lost),
        }
    }

    /// How a hold ended whose session is over: as somebody said who ended it, else with its session.
    pub(super) async fn how_it_ended(&self, claim: &Claim, token: FencingToken) -> LostReason {
        let call = self.call_of("was_ended", &claim.name, claim.owner, token);
        match self.server.row(&call, "how a hold ended").await.map(|row| row.try_get(0)) {
            Ok(Ok(true)) => LostReason::Evicted,
            _ => LostReason::Disconnected,
        }
    }

    /// Completes when a hold of another client is seen to be over.
    pub(super) fn watch(&self, lease: &Lease) -> impl Future<Output = LostReason> + Send + 'static {
        let call = self.call_of("left", lease.name(), lease.owner(), lease.token());
        let server = self.server.clone();
        async move {
            loop {
                let rows = timeout(ANSWER_LIMIT, server.rows(&call)).await;
                if let Ok(Ok(rows)) = rows {
                    match rows.first().map(|row| row.try_get(1)) {
                        None => return LostReason::Evicted,
                        Some(Ok(false)) => return LostReason::Disconnected,
                        Some(_) => {}
                    }
                }
                sleep(LOOK_EVERY).await;
            }
        }
    }
}

fn number(token: FencingToken) -> i64 {
    i64::try_from(token.get()).unwrap_or(i64::MAX)
}

/// A TTL as the server takes it.
pub(super) fn millis(ttl: Ttl) -> i64 {
    i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX)
}

/// Reads what is known of a holder, from the column `at` on: the server's time, time left, label.
pub(super) fn contention(row: &PgRow, at: usize) -> Result<Contention, BackendError> {
    const WHAT: &str = "the holder of a lock";
    let mut seen = Contention::unknown();
    seen.at = Some(ServerTime(micros(get(row, at, WHAT)?)));
    seen.ttl_left = get::<Option<i64>>(row, at + 1, WHAT)?.map(micros);
    let label = get::<Option<String>>(row, at + 2, WHAT)?;
    seen.holder = label.and_then(|label| Label::new(label).ok());
    Ok(seen)
}
