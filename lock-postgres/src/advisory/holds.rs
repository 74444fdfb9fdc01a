//! What the server knows of advisory locks, whoever holds them.
//!
//! A row says whose the lock is, until when, and which process of the server holds it. The server's own
//! list of locks says whether that process still does. A hold lives for as long as both say so.

use std::time::Duration;

use lock_core::backend::{Claim, Extension, Renewal, ServerTime};
use lock_core::{
    BackendError, Contention, FencingToken, Holder, Label, Lease, LockName, LockState, LostReason,
    OwnerId, Ttl,
};
use sqlx::Row;
use sqlx::postgres::PgRow;
use tokio::time::{sleep, timeout};

use crate::error::unreadable;
use crate::reply::{self, get, micros};
use crate::server::Server;
use crate::sql::{Call, Flag, granted_at};

/// How long the server may take to answer what is asked of a hold.
pub(super) const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// How often a client that attached the lease of another looks at the hold.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The holds of one name space, of all clients.
#[derive(Clone)]
pub(super) struct Holds {
    pub(super) server: Server,
}

impl Holds {
    /// A call that takes the lock, `take` or `wait`.
    pub(super) fn call_for(&self, function: &str, claim: &Claim) -> Call {
        let call = self.server.call(function).text(claim.name.as_str()).owner(claim.owner);
        let call = call.number(i64::try_from(claim.ttl.as_millis()).unwrap_or(i64::MAX));
        call.text(claim.label.as_str()).number(self.server.clock_limit())
    }

    /// A call about one hold. The owner alone does not tell: it may be granted the lock anew.
    pub(super) fn call_of(&self, function: &str, name: &LockName, owner: OwnerId) -> Call {
        self.server.call(function).text(name.as_str()).owner(owner)
    }

    /// What is known of the holder; `None` if the session that waits for the lock is not there any more.
    pub(super) async fn look(
        &self,
        name: &LockName,
        process: i32,
    ) -> Result<Option<Contention>, BackendError> {
        const WHAT: &str = "the holder of a lock";
        let call = self.server.call("look").text(name.as_str()).number(process.into());
        let row = self.server.row(&call, WHAT).await?;
        match get(&row, 3, WHAT)? {
            true => contention(&row, 0).map(Some),
            false => Ok(None),
        }
    }

    /// Has a session of ours give up its wait.
    pub(super) async fn leave(&self, name: &LockName, process: i32) -> Result<(), BackendError> {
        let call = self.server.call("leave").text(name.as_str()).number(process.into());
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

    /// Ends the hold of an owner, or of anybody: takes its owner out of its row, and ends its session.
    pub(super) async fn end(
        &self,
        name: &LockName,
        owner: Option<OwnerId>,
    ) -> Result<Option<Holder>, BackendError> {
        let columns = self.columns("pg_catalog.pg_terminate_backend(process)");
        let call = Call::of_columns(columns, self.server.names.function("end"));
        let call = call.text(name.as_str()).optional_owner(owner);
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
        let Renewal { name, owner, token, ttl, .. } = renewal;
        let call = self.call_to_extend(name, *owner, *token, *ttl);
        let row = self.server.row(&call, WHAT).await?;
        match get(&row, 0, WHAT)? {
            true => Ok(Extension::Extended(ttl.as_duration())),
            false => Ok(Extension::Lost),
        }
    }

    pub(super) fn call_to_extend(
        &self,
        name: &LockName,
        owner: OwnerId,
        token: FencingToken,
        ttl: Ttl,
    ) -> Call {
        let call = self.call_of("extend", name, owner).number(token_number(token));
        call.number(i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX))
    }

    /// How a hold ended whose session is over: as somebody said who ended it, else with its session.
    pub(super) async fn how_it_ended(&self, name: &LockName, owner: OwnerId) -> LostReason {
        let call = self.call_of("was_ended", name, owner);
        match self.server.row(&call, "how a hold ended").await.map(|row| row.try_get(0)) {
            Ok(Ok(true)) => LostReason::Evicted,
            _ => LostReason::Disconnected,
        }
    }

    /// Completes when a hold of another client is seen to be over.
    pub(super) fn watch(&self, lease: &Lease) -> impl Future<Output = LostReason> + Send + 'static {
        let call = self.call_of("left", lease.name(), lease.owner());
        let call = call.number(token_number(lease.token()));
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

pub(super) fn token_number(token: FencingToken) -> i64 {
    i64::try_from(token.get()).unwrap_or(i64::MAX)
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
