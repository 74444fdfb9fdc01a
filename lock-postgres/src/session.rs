//! A session of the server that is read all the time, so that its end is seen when it arrives.
//!
//! The driver reads a connection only while it waits for an answer, except for connections that listen for
//! notifications. So that is what these are, also where no notification is awaited.

use std::time::Duration;

use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt, TryFutureExt, TryStreamExt};
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions, PgRow};
use sqlx::{Acquire, Connection, Error, Executor, PgConnection};
use tokio::runtime::{Builder, Handle};
use tokio::time::timeout;

use crate::connections::CONNECT_LIMIT;
use crate::error::RequestError;
use crate::sql::Call;
use crate::transaction::{Form, Request, send};

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

/// A session for one lock. It may wait for the lock for as long as it takes, so no statement of it has a
/// time-out of the server. The server notices within some ten seconds that our machine is gone, which is
/// long after we have noticed its silence. The newest grant is looked for by its key, whatever the server's
/// statistics say: they do not count the old versions that a long transaction keeps.
const SETTINGS: &str = "SET search_path = pg_catalog, pg_temp; \
    SET default_transaction_isolation = 'read committed'; \
    SET statement_timeout = 0; SET lock_timeout = 1000; \
    SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3; \
    SET tcp_user_timeout = 10000; \
    SET client_min_messages = debug1; \
    SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off; \
    DO $$ BEGIN PERFORM set_config('log_parameter_max_length', '0', false); \
    EXCEPTION WHEN insufficient_privilege THEN NULL; END $$; \
    DO $$ BEGIN PERFORM set_config('client_connection_check_interval', '500', false); \
    EXCEPTION WHEN OTHERS THEN NULL; END $$; \
    SELECT pg_backend_pid()";

/// A session that holds one lock, or waits for it. Dropping it closes the connection, and so frees the lock, or
/// leaves the queue.
pub(crate) struct LockSession {
    /// There until the drop.
    listener: Option<PgListener>,
    /// What is spawned there is dropped.
    ended_runtime: Handle,
    /// The process of the server that serves it.
    pub(crate) process: i32,
}

impl LockSession {
    pub(crate) async fn open(options: &PgConnectOptions) -> Result<Self, RequestError> {
        let timed_out = || Error::from(std::io::Error::from(std::io::ErrorKind::TimedOut));
        let opened = timeout(CONNECT_LIMIT, async {
            let mut listener = listening(options).await?;
            let row = listener.fetch_one(sqlx::raw_sql(SETTINGS)).await?;
            let process = sqlx::Row::try_get(&row, 0)?;
            Ok(Self { listener: Some(listener), ended_runtime: ended_runtime()?, process })
        });
        let opened = opened.await.unwrap_or_else(|_| Err(timed_out()));
        opened.map_err(RequestError::Connect)
    }

    /// Makes a call. Its rows come one by one, each as soon as the server tells it.
    ///
    /// # Cancel safety
    /// After a drop before the end the session is to be dropped as well.
    pub(crate) fn rows<'a>(
        &'a mut self,
        call: &'a Call,
    ) -> BoxStream<'a, Result<PgRow, RequestError>> {
        let rows = async move { Ok(self.connection().await?.fetch(call.as_query())) };
        rows.try_flatten_stream().map_err(RequestError::Execute).boxed()
    }

    /// Makes a call whose answer is one row, and waits for as long as it takes.
    ///
    /// # Cancel safety
    /// After a drop nobody reads the answer: the session is to be dropped as well.
    pub(crate) async fn row(&mut self, call: &Call) -> Result<PgRow, RequestError> {
        let exchange = async {
            let connection = self.connection().await?;
            send(connection, Form::Prepared, &Request::Call(call)).await
        };
        let rows = exchange.await.map_err(RequestError::Execute)?;
        rows.into_iter().next().ok_or(RequestError::Execute(Error::RowNotFound))
    }

    /// Whether the server answers. It looks at no table, which somebody else might keep.
    pub(crate) async fn answers_within(&mut self, limit: Duration) -> bool {
        let ping = async {
            match self.connection().await {
                Ok(connection) => connection.ping().await.is_ok(),
                Err(_) => false,
            }
        };
        timeout(limit, ping).await.unwrap_or(false)
    }

    /// Whether the session is known to be over.
    pub(crate) fn is_over(&mut self) -> bool {
        self.ended().now_or_never().is_some()
    }

    /// Completes when the session is over: the server said so, or the connection was cut.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(crate) async fn ended(&mut self) {
        // What else the server says is of no interest.
        let Some(listener) = &mut self.listener else { return };
        while let Ok(Some(_)) = listener.try_recv().await {}
    }

    async fn connection(&mut self) -> Result<&mut PgConnection, Error> {
        self.listener.as_mut().ok_or(Error::PoolClosed)?.acquire().await
    }
}

impl Drop for LockSession {
    /// C20: on any thread. The driver would spawn a task that asks the server for something more before it closes the
    /// connection. A session that waits for a lock does not answer that, and would stay in the queue. So its
    /// task is dropped, and the connection with it.
    fn drop(&mut self) {
        let _entered = self.ended_runtime.enter();
        drop(self.listener.take());
    }
}

fn ended_runtime() -> std::io::Result<Handle> {
    let runtime = Builder::new_current_thread().build()?;
    let handle = runtime.handle().clone();
    runtime.shutdown_background();
    Ok(handle)
}
