//! A session of the server that is read all the time, so that its end is seen at once.
//!
//! The driver reads a connection only while it waits for an answer, except for a connection that listens for
//! notifications.

use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use sqlx::{ConnectOptions, Connection, Error};

use crate::connections::CONNECT_LIMIT;

/// Makes the server notice within ten seconds or so that a client's machine is gone. By default it takes two hours,
/// and each cut of the network leaves sessions behind, until no room is left for anybody. Behind a pooler the sessions
/// are not ours.
pub(crate) const KEEP_ALIVE: &str = "SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2; \
    SET tcp_keepalives_count = 3; SET tcp_user_timeout = 10000; ";

/// Opens a connection that the driver does not replace by itself. The driver makes such a connection only from a
/// pool, so it gets its own pool. A pool asks a server that has no connection left again and again, so a connection
/// without a pool comes first: its refusal is the answer.
pub(crate) async fn listening(options: PgConnectOptions) -> Result<PgListener, Error> {
    options.connect().await?.close().await?;
    let pool = PgPoolOptions::new().max_connections(1).max_lifetime(None).idle_timeout(None);
    let pool = pool.acquire_timeout(CONNECT_LIMIT).connect_with(options).await?;
    let mut session = PgListener::connect_with(&pool).await?;
    session.ignore_pool_close_event(true);
    session.eager_reconnect(false);
    Ok(session)
}
