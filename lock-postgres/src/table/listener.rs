//! The session that listens for the grants of this client.
//!
//! Its channel is named by a number that nobody can guess, and it holds an advisory lock that stands for
//! the channel. By that lock a releaser, who would grant a lock to one of our waiters, sees that the
//! session still lives. Anyone may see which keys are held, so the key is a hash, which does not tell
//! the channel.

use async_trait::async_trait;
use lock_core::BackendError;
use lock_core::backend::NotificationTransport;
use sqlx::postgres::{PgConnectOptions, PgListener};
use sqlx::{AssertSqlSafe, Error, Executor};

use crate::error::{RequestError, classify};
use crate::session::listening;
use crate::sql::key;

/// Where one client listens.
pub(crate) struct Listener {
    options: PgConnectOptions,
}

impl Listener {
    pub(crate) fn new(options: PgConnectOptions) -> Self {
        Self { options }
    }
}

#[async_trait]
impl NotificationTransport for Listener {
    type Connection = PgListener;
    /// The number of the channel.
    type Address = i64;

    async fn connect(&self) -> Result<(PgListener, i64), BackendError> {
        let mut session = listening(&self.options)
            .await
            .map_err(|error| classify(RequestError::Connect(error)))?;
        let (number, _) = uuid::Uuid::new_v4().as_u64_pair();
        let number = number as i64;
        let channel = channel(number);
        let lock = format!("SELECT pg_try_advisory_lock(({})::bigint)", key(channel.as_bytes()));
        let locked = session.execute(sqlx::raw_sql(AssertSqlSafe(lock))).await;
        locked.map_err(executing)?;
        session.listen(&channel).await.map_err(executing)?;
        Ok((session, number))
    }

    async fn recv(&self, session: &mut PgListener) -> Option<String> {
        // The driver tells of a gap by no message.
        let message = session.try_recv().await.ok()??;
        Some(message.payload().to_owned())
    }

    async fn ping(&self, session: &mut PgListener) -> bool {
        session.execute("SELECT 1").await.is_ok()
    }
}

fn executing(error: Error) -> BackendError {
    classify(RequestError::Execute(error))
}

/// The name of the channel, as the function `hand_over` writes it.
fn channel(number: i64) -> String {
    format!("leasehold_{number:x}")
}
