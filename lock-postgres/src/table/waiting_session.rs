//! A session in which one claim waits for one lock.

use std::time::Duration;

use lock_core::backend::Claim;
use sqlx::postgres::{PgConnectOptions, PgListener, PgRow};
use sqlx::{Acquire, AssertSqlSafe, Error, Executor};
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::listener::channel;
use crate::error::RequestError;
use crate::session::listening;
use crate::sql::{Call, key};
use crate::transaction::{Form, Request, send, set_up};

/// How long a call may take: a second behind the waiter ahead, a second for the lock's row, and some more.
const CALL_LIMIT: Duration = Duration::from_secs(3);

/// How long opening may take.
const OPEN_LIMIT: Duration = Duration::from_secs(2);

/// Its advisory lock stands for the claim's channel, on which it listens once it is the first to wait.
pub(super) struct WaitingSession {
    /// There until the drop.
    listener: Option<PgListener>,
    /// The runtime of the connection.
    runtime: Handle,
}

/// How a claim stands in the chain.
pub(super) enum Position {
    /// Its place is gone; the message of its grant, if it was granted the lock.
    Over(Option<String>),
    /// Behind the claim that has this number.
    Behind(i64),
    /// The first one, which is told.
    First,
}

impl WaitingSession {
    pub(super) async fn open(options: &PgConnectOptions) -> Result<Self, RequestError> {
        let opened = in_time(OPEN_LIMIT, async {
            let mut listener = listening(options).await?;
            set_up(listener.acquire().await?).await?;
            Ok(Self { listener: Some(listener), runtime: Handle::current() })
        });
        opened.await.map_err(RequestError::Connect)
    }

    /// Holds the lock that stands for a claim, as long as the session lasts.
    pub(super) async fn stand_for(&mut self, number: i64) -> Result<(), Error> {
        let lock =
            format!("SELECT pg_catalog.pg_advisory_lock({})", key(channel(number).as_bytes()));
        let listener = self.listener()?;
        let held = listener.execute(sqlx::raw_sql(AssertSqlSafe(lock)));
        in_time(CALL_LIMIT, held).await.map(drop)
    }

    /// Waits behind another claim, for a second at most, and looks how the claim stands.
    pub(super) async fn follow(&mut self, call: &Call) -> Result<Position, Error> {
        let rows = in_time(CALL_LIMIT, async {
            let connection = self.listener()?.acquire().await?;
            send(connection, Form::Prepared, &Request::Call(call)).await
        });
        position(rows.await?.first().ok_or(Error::RowNotFound)?)
    }

    /// Waits for a message, which tells of the grant; `None` if none came.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(super) async fn heard(&mut self, limit: Duration) -> Result<Option<String>, Error> {
        match timeout(limit, self.listener()?.try_recv()).await {
            Err(_) => Ok(None),
            Ok(Ok(Some(message))) => Ok(Some(message.payload().to_owned())),
            Ok(Ok(None)) => Err(Error::PoolClosed),
            Ok(Err(error)) => Err(error),
        }
    }

    /// Lets go of what it holds, and with that wakes the claim behind. It can be used for another claim then.
    pub(super) async fn leave(&mut self) -> Result<(), Error> {
        let leave = sqlx::raw_sql("SELECT pg_catalog.pg_advisory_unlock_all(); UNLISTEN *");
        let listener = self.listener()?;
        in_time(CALL_LIMIT, async { listener.execute(leave).await }).await?;
        // What it heard meanwhile was for the claim that left.
        while listener.next_buffered().is_some() {}
        Ok(())
    }

    fn listener(&mut self) -> Result<&mut PgListener, Error> {
        self.listener.as_mut().ok_or(Error::PoolClosed)
    }
}

impl Drop for WaitingSession {
    /// C20: on any thread. The driver closes such a connection on a runtime, and panics outside.
    fn drop(&mut self) {
        let _entered = self.runtime.enter();
        drop(self.listener.take());
    }
}

/// The call by which a claim waits, as the number `mine`, behind another.
pub(super) fn call_to_follow(call: Call, claim: &Claim, mine: i64, behind: Option<i64>) -> Call {
    call.text(claim.name.as_str()).owner(claim.owner).number(mine).optional(behind)
}

fn position(row: &PgRow) -> Result<Position, Error> {
    use sqlx::Row;
    let (waits, ahead): (bool, Option<i64>) = (row.try_get(0)?, row.try_get(1)?);
    Ok(match (waits, ahead) {
        (false, _) => Position::Over(row.try_get(2)?),
        (true, Some(number)) => Position::Behind(number),
        (true, None) => Position::First,
    })
}

async fn in_time<T>(
    limit: Duration,
    step: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let silent = || Error::from(std::io::Error::from(std::io::ErrorKind::TimedOut));
    timeout(limit, step).await.unwrap_or_else(|_| Err(silent()))
}
