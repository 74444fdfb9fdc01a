//! Two writes of a row, each of which waits for the disk.

use async_trait::async_trait;
use sqlx::postgres::PgPoolOptions;
use sqlx::{Connection, Executor, PgConnection, PgPool};

use crate::client::{Client, Result};
use crate::contender::Contender;

/// Same as the project's default for its requests.
const CONNECTIONS: u32 = 8;

pub(crate) const UPSERT: &str = "INSERT INTO floor AS f VALUES ($1, 1) \
     ON CONFLICT (name) DO UPDATE SET n = f.n + 1";

pub(crate) const UPSERTS: Contender = Contender {
    name: "two upserts",
    connect: |url| {
        Box::pin(async move {
            let pool = PgPoolOptions::new().max_connections(CONNECTIONS).test_before_acquire(false);
            Ok(Box::new(Upserts(pool.connect(&url).await?)) as Box<dyn Client>)
        })
    },
};

pub(crate) async fn create_table(url: &str) -> Result<()> {
    let table = "CREATE TABLE floor (name text PRIMARY KEY, n bigint NOT NULL)";
    PgConnection::connect(url).await?.execute(table).await?;
    Ok(())
}

struct Upserts(PgPool);

#[async_trait]
impl Client for Upserts {
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
