//! A write that waits for the disk, and a NOTIFY after it, until another listening session wakes.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use sqlx::postgres::PgListener;
use sqlx::{Connection, Executor, PgConnection};

use super::upserts::UPSERT;
use crate::client::Result;
use crate::wake_up::WakeUp;

pub(crate) struct CommitAndNotify {
    writer: PgConnection,
    listener: PgListener,
}

impl CommitAndNotify {
    pub(crate) async fn at(url: &str) -> Result<Self> {
        let mut listener = PgListener::connect(url).await?;
        listener.listen("floor").await?;
        Ok(Self { writer: PgConnection::connect(url).await?, listener })
    }
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
