//! A session of the server that is read all the time, so that its end is seen at once.
//!
//! The driver reads a connection only while it waits for an answer, except for connections that listen for
//! notifications. So these sessions listen, even if they expect no notification.

use sqlx::Error;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};

use crate::connections::CONNECT_LIMIT;

/// Opens a connection that the driver does not replace by itself. The driver makes such a connection only from a
/// pool, so it gets its own pool.
pub(crate) async fn listening(options: &PgConnectOptions) -> Result<PgListener, Error> {
    let pool = PgPoolOptions::new().max_connections(1).max_lifetime(None).idle_timeout(None);
    let pool = pool.acquire_timeout(CONNECT_LIMIT).connect_with(options.clone()).await?;
    let mut session = PgListener::connect_with(&pool).await?;
    session.ignore_pool_close_event(true);
    session.eager_reconnect(false);
    Ok(session)
}
