//! What the server knows of advisory locks that are held.
//!
//! A row says whose the lock is, until when, and which process of the server holds it; the server's own
//! list of locks says whether that process still does. A hold lives for as long as both say so.

use lock_core::backend::{Extension, Renewal};
use lock_core::{
    BackendError, FencingToken, Holder, Lease, LockName, LockState, LostReason, OwnerId,
};
use sqlx::Row;
use sqlx::postgres::PgRow;
use tokio::time::{sleep, timeout};

use crate::error::unreadable;
use crate::reply::{self, get};
use crate::server::Server;
use crate::session::{ANSWER_LIMIT, LOOK_EVERY};
use crate::sql::{key, owner_literal, text_literal};

/// The condition of a row whose hold is not over by the clock.
pub(crate) const NOT_OVER: &str = "l.expires_at > clock_timestamp()";

/// The holds of one name space, of all clients.
#[derive(Clone)]
pub(crate) struct Holds {
    pub(crate) server: Server,
}

impl Holds {
    /// The key of a lock.
    pub(crate) fn key(&self, name: &LockName) -> i64 {
        key([self.server.place.space().as_bytes(), &[0], name.as_str().as_bytes()]
            .concat()
            .as_slice())
    }

    /// The condition of a row that says the truth: the process that it names holds the lock right now.
    /// Another that does is about to write its own grant, and is none of this hold's.
    fn lives(&self) -> String {
        format!(
            "EXISTS (SELECT FROM pg_catalog.pg_locks k WHERE k.locktype = 'advisory' \
             AND k.objsubid = 1 AND k.granted AND k.pid = l.process \
             AND k.database = (SELECT oid FROM pg_catalog.pg_database \
             WHERE datname = current_database()) \
             AND (k.classid::bigint << 32 | k.objid::bigint) = {}(convert_to({}, 'UTF8') \
             || decode('00', 'hex') || convert_to(l.name, 'UTF8')))",
            self.server.place.function("key"),
            text_literal(&self.server.place.space()),
        )
    }

    /// The holds whose rows meet `condition`, as a listing has them, and the process of each.
    fn select(&self, condition: &str, limit: usize) -> String {
        format!(
            "SELECT l.name, left(l.owner::text, 8), l.token, greatest(0, \
             (extract(epoch FROM l.expires_at - clock_timestamp()) * 1000000)::bigint), l.label, \
             l.process FROM {} l WHERE l.owner IS NOT NULL AND {condition} AND {} \
             ORDER BY l.name LIMIT {limit}",
            self.server.place.table(),
            self.lives(),
        )
    }

    /// The holds whose rows meet `condition`, by name.
    pub(crate) async fn states(
        &self,
        condition: &str,
        limit: usize,
    ) -> Result<Vec<LockState>, BackendError> {
        const WHAT: &str = "the state of a lock";
        let rows = self.server.rows(self.select(condition, limit)).await?;
        let state = |row: &PgRow| {
            let name = LockName::new(get::<String>(row, 0, WHAT)?).map_err(|_| unreadable(WHAT))?;
            Ok(LockState::new(name, reply::holder(row)?, None))
        };
        rows.iter().map(state).collect()
    }

    /// Ends a hold that meets `condition`, of whatever client: takes its owner out of its row, and ends
    /// the session. The row is locked for both, so that the session cannot come to hold something else
    /// before it is ended.
    pub(crate) async fn end(&self, condition: &str) -> Result<Option<Holder>, BackendError> {
        let request = format!(
            "WITH held AS MATERIALIZED ({} FOR UPDATE OF l) \
             UPDATE {} l SET owner = NULL, label = '', expires_at = '-infinity' \
             FROM held WHERE l.name = held.name RETURNING held.*, pg_terminate_backend(held.process)",
            self.select(condition, 1),
            self.server.place.table(),
        );
        self.server.rows(request).await?.first().map_or(Ok(None), reply::holder)
    }

    /// Extends a hold of whatever client, if it lives.
    pub(crate) async fn extend(&self, renewal: &Renewal) -> Result<Extension, BackendError> {
        let request = format!(
            "UPDATE {} l SET expires_at = greatest(l.expires_at, \
             clock_timestamp() + ({}) * interval '1 millisecond') \
             WHERE {} AND {NOT_OVER} AND {} RETURNING 1",
            self.server.place.table(),
            renewal.ttl.as_millis(),
            held(&renewal.name, renewal.owner, renewal.token),
            self.lives(),
        );
        match self.server.rows(request).await?.is_empty() {
            true => Ok(Extension::Lost),
            false => Ok(Extension::Extended(renewal.ttl.as_duration())),
        }
    }

    /// Completes when a hold of another client is seen to be over.
    pub(crate) fn watch(&self, lease: &Lease) -> impl Future<Output = LostReason> + Send + 'static {
        let request = format!(
            "SELECT {} FROM {} l WHERE {} AND {NOT_OVER}",
            self.lives(),
            self.server.place.table(),
            held(lease.name(), lease.owner(), lease.token()),
        );
        let server = self.server.clone();
        async move {
            loop {
                let rows = timeout(ANSWER_LIMIT, server.rows(request.clone())).await;
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

/// The condition of the row of a lock.
pub(crate) fn named(name: &LockName) -> String {
    format!("l.name = {}", text_literal(name.as_str()))
}

/// The condition of a row that says that the lock is an owner's.
pub(crate) fn owned(name: &LockName, owner: OwnerId) -> String {
    format!("{} AND l.owner = {}", named(name), owner_literal(owner))
}

/// The condition of a row that tells of this hold: its owner may be granted the lock anew.
pub(crate) fn held(name: &LockName, owner: OwnerId, token: FencingToken) -> String {
    format!("{} AND l.token = {token}", owned(name, owner))
}
