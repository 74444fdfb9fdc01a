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

/// As a production server, with connections for all clients of a hand-off.
const SETTINGS: &[&str] = &["fsync=on", "full_page_writes=on", "max_connections=1500"];

pub(crate) struct Postgres {
    url: String,
    _server: PostgresServer,
}

impl Postgres {
    pub(crate) async fn start() -> Result<Self> {
        let server = PostgresServer::start_with(SETTINGS).await;
        let url = server.url();
        upserts::create_table(&url).await?;
        Ok(Self { url, _server: server })
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

    async fn snapshot(&self) -> Result<Option<Box<dyn Any + Send>>> {
        let mut reader = PgConnection::connect(&self.url).await?;
        reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await?;
        // The snapshot is taken by the first statement.
        reader.execute("SELECT count(*) FROM pg_class").await?;
        Ok(Some(Box::new(reader)))
    }
}
