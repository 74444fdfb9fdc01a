//! The session that receives this client's grants.
//!
//! Its channel has a number that nobody can guess. The session holds an advisory lock that stands for the
//! channel. By that lock a releaser sees that the session still lives before it grants a lock to a waiter of this
//! client. Everyone may see which keys are held, so the key is a hash, which does not reveal the channel.

use async_trait::async_trait;
use lock_core::BackendError;
use lock_core::backend::NotificationTransport;
use sqlx::postgres::PgListener;
use sqlx::{AssertSqlSafe, Error, Executor};

use crate::error::RequestError;
use crate::server::Server;
use crate::session::listening;
use crate::sql::key;

/// Connects the session on which one client listens.
pub(super) struct Listener(pub(super) Server);

#[async_trait]
impl NotificationTransport for Listener {
    type Connection = PgListener;
    /// The number of the channel.
    type Address = i64;

    async fn connect(&self) -> Result<(PgListener, i64), BackendError> {
        let opened = self.open().await;
        opened.map_err(|error| self.0.failed(RequestError::Connect(error)))
    }

    async fn recv(&self, session: &mut PgListener) -> Option<String> {
        // The driver reports a gap by returning no message.
        Some(session.try_recv().await.ok()??.payload().to_owned())
    }

    async fn ping(&self, session: &mut PgListener) -> bool {
        session.execute("SELECT 1").await.is_ok()
    }
}

impl Listener {
    async fn open(&self) -> Result<(PgListener, i64), Error> {
        let mut session = listening(self.0.connections.options()).await?;
        let number = uuid::Uuid::new_v4().as_u64_pair().0.cast_signed();
        // Name of the channel, the same as in the function `hand_over`.
        let channel = format!("leasehold_{number:x}");
        let lock = key(channel.as_bytes());
        let begin = format!(
            "LISTEN {channel}; SELECT FROM pg_catalog.pg_try_advisory_lock(({lock})::pg_catalog.int8)"
        );
        session.execute(sqlx::raw_sql(AssertSqlSafe(begin))).await?;
        Ok((session, number))
    }
}
