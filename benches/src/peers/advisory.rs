//! `pg_advisory_lock`: a lock of a session, without a token, a lease or a bounded wait.

use async_trait::async_trait;
use sqlx::pool::PoolConnection;
use sqlx::postgres::PgPoolOptions;
use sqlx::{Executor, PgPool, Postgres};

use crate::client::{Client, Result};
use crate::contender::Contender;

/// Each hold needs its own session, so there are as many as tasks of a client.
const SESSIONS: u32 = 64;

pub(crate) const ADVISORY: Contender = Contender {
    name: "pg_advisory_lock",
    connect: |url| {
        Box::pin(async move {
            let pool = PgPoolOptions::new().max_connections(SESSIONS).test_before_acquire(false);
            let pool = pool.connect(&url).await?;
            Ok(Box::new(Advisory { pool, held: None }) as Box<dyn Client>)
        })
    },
};

struct Advisory {
    pool: PgPool,
    held: Option<PoolConnection<Postgres>>,
}

#[async_trait]
impl Client for Advisory {
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
