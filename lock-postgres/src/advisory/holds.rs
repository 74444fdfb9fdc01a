//! What the server knows of advisory locks that are held.
//!
//! A row says whose the lock is, until when, and which process of the server holds it. The server's own
//! list of locks says whether that process still does. A hold lives for as long as both say so.

use lock_core::backend::{Extension, Renewal};
use lock_core::{BackendError, Holder, Lease, LockName, LockState, LostReason};
use sqlx::Row;
use sqlx::postgres::PgRow;
use tokio::time::{sleep, timeout};

use super::rows::{NOT_OVER, held};
use super::session_task::{ANSWER_LIMIT, LOOK_EVERY};
use crate::error::unreadable;
use crate::reply::{self, get};
use crate::server::Server;
use crate::sql::{granted_at, key, text_literal};

/// The holds of one name space, of all clients.
#[derive(Clone)]
pub(super) struct Holds {
    pub(super) server: Server,
}

impl Holds {
    /// The key of a lock.
    pub(super) fn key(&self, name: &LockName) -> i64 {
        let name_space = self.server.names.name_space();
        key(&[name_space.as_bytes(), &[0], name.as_str().as_bytes()].concat())
    }

    /// The condition of a row that says the truth: the process that it names holds the lock right now. If
    /// another process holds it, that one is about to write its own grant, and this hold is over.
    fn lives(&self) -> String {
        format!(
            "EXISTS (SELECT FROM pg_catalog.pg_locks k WHERE k.locktype = 'advisory' \
             AND k.objsubid = 1 AND k.granted AND k.pid = l.process \
             AND k.database = (SELECT oid FROM pg_catalog.pg_database \
             WHERE datname = current_database()) \
             AND (k.classid::bigint << 32 | k.objid::bigint) = {}(convert_to({}, 'UTF8') \
             || decode('00', 'hex') || convert_to(l.name, 'UTF8')))",
            self.server.names.function("key"),
            text_literal(&self.server.names.name_space()),
        )
    }

    /// The holds whose rows meet `condition`, as [`reply::holder`] reads them, and the process of each.
    fn select(&self, condition: &str, limit: usize) -> String {
        let now = format!("{}()", self.server.names.function("now_us"));
        format!(
            "SELECT l.name, left(l.owner::text, 8), l.token, greatest(0, \
             (extract(epoch FROM l.expires_at - clock_timestamp()) * 1000000)::bigint), l.label, \
             {granted_at} AS granted_at, l.process FROM {table} l \
             WHERE l.owner IS NOT NULL AND {condition} AND {lives} ORDER BY l.name LIMIT {limit}",
            granted_at = granted_at("l.token", &now),
            table = self.server.names.table(),
            lives = self.lives(),
        )
    }

    /// The holds whose rows meet `condition`, by name.
    pub(super) async fn states(
        &self,
        condition: &str,
        limit: usize,
    ) -> Result<Vec<LockState>, BackendError> {
        const WHAT: &str = "the state of a lock";
        let rows = self.server.ask(&self.select(condition, limit)).await?;
        let state = |row: &PgRow| {
            let name = LockName::new(get::<String>(row, 0, WHAT)?).map_err(|_| unreadable(WHAT))?;
            Ok(LockState::new(name, reply::holder(row)?, None))
        };
        rows.iter().map(state).collect()
    }

    /// Ends a hold that meets `condition`, of any client: takes its owner out of its row, and ends the
    /// session. The row is locked for both, so that the session cannot come to hold something else
    /// before it is ended.
    pub(super) async fn end(&self, condition: &str) -> Result<Option<Holder>, BackendError> {
        let sql = format!(
            "WITH held AS MATERIALIZED ({} FOR UPDATE OF l) \
             UPDATE {} l SET owner = NULL, label = '', expires_at = '-infinity' \
             FROM held WHERE l.name = held.name RETURNING held.*, pg_terminate_backend(held.process)",
            self.select(condition, 1),
            self.server.names.table(),
        );
        self.server.ask(&sql).await?.first().map_or(Ok(None), reply::holder)
    }

    /// Extends a hold of any client, if it lives.
    pub(super) async fn extend(&self, renewal: &Renewal) -> Result<Extension, BackendError> {
        let sql = format!(
            "UPDATE {} l SET expires_at = greatest(l.expires_at, \
             clock_timestamp() + ({}) * interval '1 millisecond') \
             WHERE {} AND {NOT_OVER} AND {} RETURNING 1",
            self.server.names.table(),
            renewal.ttl.as_millis(),
            held(&renewal.name, renewal.owner, renewal.token),
            self.lives(),
        );
        match self.server.ask(&sql).await?.is_empty() {
            true => Ok(Extension::Lost),
            false => Ok(Extension::Extended(renewal.ttl.as_duration())),
        }
    }

    /// Completes when a hold of another client is seen to be over.
    pub(super) fn watch(&self, lease: &Lease) -> impl Future<Output = LostReason> + Send + 'static {
        let sql = format!(
            "SELECT {} FROM {} l WHERE {} AND {NOT_OVER}",
            self.lives(),
            self.server.names.table(),
            held(lease.name(), lease.owner(), lease.token()),
        );
        let server = self.server.clone();
        async move {
            loop {
                let rows = timeout(ANSWER_LIMIT, server.ask(&sql)).await;
                if let Ok(Ok(rows)) = rows {
                    match rows.first().map(|row| row.try_get(0)) {
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
