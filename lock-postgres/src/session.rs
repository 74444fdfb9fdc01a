//! A session of the server that is read all the time, so that its end is seen when it arrives.
//!
//! The driver reads a connection only while it waits for an answer, except for connections that listen for
//! notifications. So that is what these are, also where no notification is awaited.

use sqlx::Error;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};

use crate::connections::CONNECT_LIMIT;

/// A connection that the driver does not replace by itself. The driver makes such a connection from a
/// pool only, so it has a pool of its own.
pub(crate) async fn listening(options: &PgConnectOptions) -> Result<PgListener, Error> {
    let pool = PgPoolOptions::new().max_connections(1).max_lifetime(None).idle_timeout(None);
    let pool = pool.acquire_timeout(CONNECT_LIMIT).connect_with(options.clone()).await?;
    let mut session = PgListener::connect_with(&pool).await?;
    session.ignore_pool_close_event(true);
    session.eager_reconnect(false);
    Ok(session)
}
