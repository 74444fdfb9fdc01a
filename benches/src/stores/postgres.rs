//! A Postgres server that waits for its disk, beside `pg_advisory_lock`. The floors are two writes of a row, each of
//! which waits for the disk, and a write with a NOTIFY after it, until another listening session wakes.

use std::any::Any;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use lock_testkit::PostgresServer;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgListener, PgPoolOptions};
use sqlx::{Connection, Executor, PgConnection, PgPool};

use super::{Row, Store, WakeUp};
use crate::client::{Client, Result};
use crate::contender::Contender;
use crate::ours::LEASEHOLD;

pub(crate) const ROW: Row = Row {
    name: "postgres",
    start: || {
        Box::pin(async {
            let server = PostgresServer::start_with(SETTINGS).await;
            server.psql("CREATE TABLE floor (name text PRIMARY KEY, n bigint NOT NULL)");
            Ok(Box::new(server) as Box<dyn Store>)
        })
    },
    contenders: &[LEASEHOLD, Contender::of::<Advisory>("pg_advisory_lock")],
    floor: Some(Contender::of::<Upserts>("two upserts")),
    wake_up: "commit and NOTIFY",
};

/// Settings of a production server, with connections for all clients of a hand-off.
const SETTINGS: &[&str] =
    &["fsync=on", "full_page_writes=on", "max_connections=1500", "log_lock_waits=on"];

/// Same as the project's default for its requests.
const CONNECTIONS: u32 = 8;

/// Each hold of an advisory lock needs its own session, so there are as many as tasks of a client.
const SESSIONS: u32 = 64;

const UPSERT: &str = "INSERT INTO floor AS f VALUES ($1, 1) \
     ON CONFLICT (name) DO UPDATE SET n = f.n + 1";

#[async_trait]
impl Store for PostgresServer {
    fn url(&self) -> String {
        self.url()
    }

    async fn wake_up(&self) -> Result<Option<Box<dyn WakeUp>>> {
        let mut listener = PgListener::connect(&self.url()).await?;
        listener.listen("floor").await?;
        let writer = PgConnection::connect(&self.url()).await?;
        Ok(Some(Box::new(CommitAndNotify { writer, listener })))
    }

    async fn sessions(&self) -> Result<Option<u64>> {
        let others = "SELECT count(*) FROM pg_stat_activity \
            WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
        Ok(Some(self.psql(others).parse()?))
    }

    fn log_lines(&self) -> Option<usize> {
        Some(self.log().lines().count())
    }

    async fn fill(&self, names: usize) -> Result<()> {
        self.psql(&format!(
            "INSERT INTO leasehold.locks SELECT 'name-' || n FROM generate_series(1, {names}) n \
                ON CONFLICT DO NOTHING; \
             INSERT INTO leasehold.locks_grants (name, token) \
                SELECT 'name-' || n, n FROM generate_series(1, {names}) n ON CONFLICT DO NOTHING"
        ));
        Ok(())
    }

    async fn snapshot(&self) -> Result<Option<Box<dyn Any + Send>>> {
        let mut reader = PgConnection::connect(&self.url()).await?;
        reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await?;
        // The first statement takes the snapshot.
        reader.execute("SELECT count(*) FROM pg_class").await?;
        Ok(Some(Box::new(reader)))
    }
}

struct Upserts(PgPool);

#[async_trait]
impl Client for Upserts {
    async fn connect(url: &str) -> Result<Self> {
        let pool = PgPoolOptions::new().max_connections(CONNECTIONS).test_before_acquire(false);
        Ok(Self(pool.connect(url).await?))
    }

    async fn acquire(&mut self, name: &str) -> Result<()> {
        self.0.execute(sqlx::query(UPSERT).bind(name)).await?;
        Ok(())
    }

    async fn release(&mut self, name: &str) -> Result<()> {
        self.acquire(name).await
    }

    fn another(&self) -> Box<dyn Client> {
        Box::new(Self(self.0.clone()))
    }
}

struct CommitAndNotify {
    writer: PgConnection,
    listener: PgListener,
}

#[async_trait]
impl WakeUp for CommitAndNotify {
    async fn once(&mut self) -> Result<Duration> {
        let sent = Instant::now();
        let heard = async { self.listener.recv().await.map(|_| sent.elapsed()) };
        let written = async {
            self.writer.execute(sqlx::query(UPSERT).bind("floor")).await?;
            // A notification before the commit wakes nobody; one within it would delay all other commits.
            self.writer.execute("NOTIFY floor").await
        };
        let (written, took) = tokio::join!(written, heard);
        written?;
        Ok(took?)
    }
}

/// `pg_advisory_lock`: a lock of a session, without a token, a lease or a bounded wait.
struct Advisory {
    pool: PgPool,
    held: Option<PoolConnection<sqlx::Postgres>>,
}

#[async_trait]
impl Client for Advisory {
    async fn connect(url: &str) -> Result<Self> {
        let pool = PgPoolOptions::new().max_connections(SESSIONS).test_before_acquire(false);
        Ok(Self { pool: pool.connect(url).await?, held: None })
    }

    async fn acquire(&mut self, name: &str) -> Result<()> {
        let mut session = self.pool.acquire().await?;
        let lock = sqlx::query("SELECT pg_advisory_lock(hashtextextended($1, 0))").bind(name);
        session.execute(lock).await?;
        self.held = Some(session);
        Ok(())
    }

    async fn release(&mut self, name: &str) -> Result<()> {
        if let Some(mut session) = self.held.take() {
            let unlock =
                sqlx::query("SELECT pg_advisory_unlock(hashtextextended($1, 0))").bind(name);
            session.execute(unlock).await?;
        }
        Ok(())
    }

    fn another(&self) -> Box<dyn Client> {
        Box::new(Self { pool: self.pool.clone(), held: None })
    }
}
