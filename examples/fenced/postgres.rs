//! Postgres: the fence is part of the application's transaction, which fails as a whole.

use async_trait::async_trait;
use leasehold::postgres::{PostgresBackend, PostgresFence};
use leasehold::{FenceError, FencingToken};
use sqlx::{Connection, Executor, PgConnection};

use crate::stock::{Error, STOCK, Stock};

/// A table `leasehold_example` with one row per shop.
pub(crate) struct PostgresStock {
    fence: PostgresFence,
    url: String,
}

impl PostgresStock {
    pub(crate) async fn at(url: &str) -> Result<Self, Error> {
        let fence = PostgresBackend::connect(url).await?.fence(STOCK);
        Ok(Self { fence, url: url.to_owned() })
    }
}

#[async_trait]
impl Stock for PostgresStock {
    async fn fill(&self, lamps: i64) -> Result<(), Error> {
        let mut database = PgConnection::connect(&self.url).await?;
        database
            .execute("CREATE TABLE IF NOT EXISTS leasehold_example (name text PRIMARY KEY, lamps bigint)")
            .await?;
        let fill = "INSERT INTO leasehold_example VALUES ($1, $2) \
             ON CONFLICT (name) DO UPDATE SET lamps = excluded.lamps";
        sqlx::query(fill).bind(STOCK).bind(lamps).execute(&mut database).await?;
        Ok(())
    }

    async fn read(&self, token: FencingToken) -> Result<i64, Error> {
        let mut database = PgConnection::connect(&self.url).await?;
        let mut transaction = database.begin().await?;
        self.fence.advance_in(&mut transaction, token).await?;
        let read = sqlx::query_scalar("SELECT lamps FROM leasehold_example WHERE name = $1");
        let lamps = read.bind(STOCK).fetch_one(&mut *transaction).await?;
        transaction.commit().await?;
        Ok(lamps)
    }

    async fn write(&self, token: FencingToken, lamps: i64) -> Result<bool, Error> {
        let mut database = PgConnection::connect(&self.url).await?;
        let mut transaction = database.begin().await?;
        match self.fence.advance_in(&mut transaction, token).await {
            Ok(()) => {}
            Err(FenceError::Stale { .. }) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        let write = sqlx::query("UPDATE leasehold_example SET lamps = $2 WHERE name = $1");
        write.bind(STOCK).bind(lamps).execute(&mut *transaction).await?;
        transaction.commit().await?;
        Ok(true)
    }
}
