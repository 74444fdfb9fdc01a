//! A Postgres server that waits for its disk.

use std::any::Any;

use async_trait::async_trait;
use lock_testkit::PostgresServer;
use sqlx::{Connection, Executor, PgConnection};

use super::Store;
use crate::client::Result;
use crate::contender::Contender;
use crate::floors::{commit_and_notify, upserts};
use crate::ours::LEASEHOLD;
use crate::peers::advisory;
use crate::wake_up::WakeUp;

pub(crate) const CONTENDERS: &[Contender] = &[LEASEHOLD, advisory::ADVISORY];

pub(crate) const FLOOR: Contender = upserts::UPSERTS;

/// Settings of a production server, with connections for all clients of a hand-off.
const SETTINGS: &[&str] =
    &["fsync=on", "full_page_writes=on", "max_connections=1500", "log_lock_waits=on"];

pub(crate) struct Postgres {
    url: String,
    server: PostgresServer,
}

impl Postgres {
    pub(crate) async fn start() -> Result<Self> {
        let server = PostgresServer::start_with(SETTINGS).await;
        let url = server.url();
        upserts::create_table(&url).await?;
        Ok(Self { url, server })
    }
}

#[async_trait]
impl Store for Postgres {
    fn url(&self) -> &str {
        &self.url
    }

    async fn wake_up(&self) -> Result<Option<Box<dyn WakeUp>>> {
        Ok(Some(Box::new(commit_and_notify::CommitAndNotify::at(&self.url).await?)))
    }

    async fn sessions(&self) -> Result<Option<u64>> {
        let mut reader = PgConnection::connect(&self.url).await?;
        let others = "SELECT count(*) FROM pg_stat_activity \
            WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
        let sessions: i64 = sqlx::query_scalar(others).fetch_one(&mut reader).await?;
        Ok(Some(sessions.unsigned_abs()))
    }

    fn log_lines(&self) -> Option<usize> {
        Some(self.server.log().lines().count())
    }

    async fn fill(&self, names: usize) -> Result<()> {
        let mut writer = PgConnection::connect(&self.url).await?;
        for statement in [
            "INSERT INTO leasehold.locks SELECT 'name-' || n FROM generate_series(1, $1) n \
                ON CONFLICT DO NOTHING",
            "INSERT INTO leasehold.locks_grants (name, token) \
                SELECT 'name-' || n, n FROM generate_series(1, $1) n ON CONFLICT DO NOTHING",
        ] {
            sqlx::query(statement).bind(i64::try_from(names)?).execute(&mut writer).await?;
        }
        Ok(())
    }

    async fn snapshot(&self) -> Result<Option<Box<dyn Any + Send>>> {
        let mut reader = PgConnection::connect(&self.url).await?;
        reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await?;
        // The first statement takes the snapshot.
        reader.execute("SELECT count(*) FROM pg_class").await?;
        Ok(Some(Box::new(reader)))
    }
}
