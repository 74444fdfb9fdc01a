//! Postgres: both modes, beside `pg_advisory_lock`.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use lock_testkit::PostgresServer;
use sqlx::postgres::PgListener;
use sqlx::{Connection, Executor, PgConnection};
use tokio::time::sleep;

use crate::client::{Client, Leasehold, Peer, Result};
use crate::system::System;
use crate::times::{Times, micros};

const PEERS: &[Peer] = &[
    Peer {
        name: "leasehold, table",
        client: |url| Box::pin(async move { Leasehold::at(&url).await }),
    },
    Peer {
        name: "leasehold, advisory",
        client: |url| {
            Box::pin(async move { Leasehold::at(&format!("{url}?lock_mode=advisory")).await })
        },
    },
    Peer {
        name: "pg_advisory_lock",
        client: |url| Box::pin(async move { AdvisoryBackend::at(&url).await }),
    },
];

pub(crate) struct Postgres {
    url: String,
    _server: Option<PostgresServer>,
}

impl Postgres {
    pub(crate) async fn at(url: Option<&str>) -> Self {
        match url {
            Some(url) => Self { url: url.to_owned(), _server: None },
            None => {
                let durable = ["fsync=on", "full_page_writes=on"];
                let server = PostgresServer::start_with(&durable).await;
                Self { url: server.url(), _server: Some(server) }
            }
        }
    }
}

#[async_trait]
impl System for Postgres {
    fn url(&self) -> &str {
        &self.url
    }

    fn peers(&self) -> &'static [Peer] {
        PEERS
    }

    fn two_writes(&self) -> Peer {
        Peer { name: "two upserts", client: |url| Box::pin(async move { Upserts::at(&url).await }) }
    }

    fn wake_up(&self) -> &'static str {
        "NOTIFY to wake-up"
    }

    async fn wake_ups(&self) -> Result<Times> {
        let mut notifier = PgConnection::connect(&self.url).await?;
        let mut listener = PgListener::connect(&self.url).await?;
        listener.listen("floor").await?;
        let mut times = Times::new(3)?;
        for _ in 0..2000 {
            let sent = Instant::now();
            let notify = sqlx::raw_sql("NOTIFY floor");
            let (notified, heard) = tokio::join!(notifier.execute(notify), listener.recv());
            notified?;
            heard?;
            times.record(micros(sent))?;
            sleep(Duration::from_micros(500)).await;
        }
        Ok(times)
    }
}

struct AdvisoryBackend(PgConnection);

impl AdvisoryBackend {
    async fn at(url: &str) -> Result<Box<dyn Client>> {
        Ok(Box::new(Self(PgConnection::connect(url).await?)))
    }
}

#[async_trait]
impl Client for AdvisoryBackend {
    async fn acquire(&mut self, name: &str) -> Result<()> {
        let lock = sqlx::query("SELECT pg_advisory_lock(hashtext($1))").bind(name);
        self.0.execute(lock).await?;
        Ok(())
    }

    async fn release(&mut self, name: &str) -> Result<()> {
        let unlock = sqlx::query("SELECT pg_advisory_unlock(hashtext($1))").bind(name);
        self.0.execute(unlock).await?;
        Ok(())
    }
}

/// Writes to a row of its own, twice.
struct Upserts(PgConnection);

impl Upserts {
    async fn at(url: &str) -> Result<Box<dyn Client>> {
        let mut connection = PgConnection::connect(url).await?;
        let table = "CREATE TABLE leasehold_bench (name text PRIMARY KEY, n bigint)";
        connection.execute(table).await?;
        Ok(Box::new(Self(connection)))
    }
}

#[async_trait]
impl Client for Upserts {
    async fn acquire(&mut self, name: &str) -> Result<()> {
        let upsert = "INSERT INTO leasehold_bench AS b VALUES ($1, 1) \
             ON CONFLICT (name) DO UPDATE SET n = b.n + 1";
        self.0.execute(sqlx::query(upsert).bind(name)).await?;
        Ok(())
    }

    async fn release(&mut self, name: &str) -> Result<()> {
        self.acquire(name).await
    }

    async fn clear_up(&mut self) -> Result<()> {
        self.0.execute("DROP TABLE leasehold_bench").await?;
        Ok(())
    }
}
