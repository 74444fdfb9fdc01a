//! Redis: beside rslock, and the SET NX PX of the usual recipe.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures_util::StreamExt;
use lock_testkit::RedisServer;
use redis::aio::MultiplexedConnection;
use redis::cmd;
use tokio::time::sleep;

use crate::client::{Client, Leasehold, Peer, Result, TTL};
use crate::system::System;
use crate::times::{Times, micros};

const PEERS: &[Peer] = &[
    Peer { name: "leasehold", client: |url| Box::pin(async move { Leasehold::at(&url).await }) },
    Peer { name: "rslock 0.10", client: |url| Box::pin(async move { Rslock::at(&url) }) },
    Peer {
        name: "SET NX PX every 10 ms",
        client: |url| Box::pin(async move { SetNx::at(&url).await }),
    },
];

pub(crate) struct Redis {
    url: String,
    _server: Option<RedisServer>,
}

impl Redis {
    pub(crate) async fn at(url: Option<&str>) -> Self {
        match url {
            Some(url) => Self { url: url.to_owned(), _server: None },
            None => {
                let server = RedisServer::start().await;
                Self { url: server.url(), _server: Some(server) }
            }
        }
    }

    async fn connection(&self) -> Result<MultiplexedConnection> {
        Ok(redis::Client::open(&*self.url)?.get_multiplexed_async_connection().await?)
    }
}

#[async_trait]
impl System for Redis {
    fn url(&self) -> &str {
        &self.url
    }

    fn peers(&self) -> &'static [Peer] {
        PEERS
    }

    fn two_writes(&self) -> Peer {
        Peer {
            name: "SET, then DEL by a script",
            client: |url| Box::pin(async move { SetNx::at(&url).await }),
        }
    }

    fn wake_up(&self) -> &'static str {
        "PUBLISH to wake-up"
    }

    async fn wake_ups(&self) -> Result<Times> {
        let mut publisher = self.connection().await?;
        let mut subscriber = redis::Client::open(&*self.url)?.get_async_pubsub().await?;
        subscriber.subscribe("floor").await?;
        let mut messages = subscriber.into_on_message();
        let mut times = Times::new(3)?;
        for i in 0..2000 {
            let sent = Instant::now();
            let mut publish = cmd("PUBLISH");
            publish.arg("floor").arg(i);
            let (published, _) =
                tokio::join!(publish.query_async::<i64>(&mut publisher), messages.next());
            published?;
            times.record(micros(sent))?;
            sleep(Duration::from_micros(500)).await;
        }
        Ok(times)
    }

    async fn commands(&self) -> Result<Option<u64>> {
        let info: String =
            cmd("INFO").arg("stats").query_async(&mut self.connection().await?).await?;
        let count = info.lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
        Ok(count.map(str::trim).map(str::parse).transpose()?)
    }
}

struct Rslock {
    manager: rslock::LockManager,
    held: Option<rslock::LockGuard>,
}

impl Rslock {
    fn at(url: &str) -> Result<Box<dyn Client>> {
        Ok(Box::new(Self { manager: rslock::LockManager::new(vec![url]), held: None }))
    }
}

#[async_trait]
impl Client for Rslock {
    async fn acquire(&mut self, name: &str) -> Result<()> {
        let acquired = self.manager.acquire(name.as_bytes(), TTL).await;
        self.held = Some(acquired.map_err(|error| format!("{error:?}"))?);
        Ok(())
    }

    async fn release(&mut self, _: &str) -> Result<()> {
        if let Some(guard) = self.held.take() {
            guard.release().await;
        }
        Ok(())
    }
}

/// The recipe of the usual blog post: no token, no renewal, no queue.
struct SetNx {
    connection: MultiplexedConnection,
    value: String,
}

impl SetNx {
    async fn at(url: &str) -> Result<Box<dyn Client>> {
        let connection = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
        Ok(Box::new(Self { connection, value: rand::random::<u128>().to_string() }))
    }
}

#[async_trait]
impl Client for SetNx {
    async fn acquire(&mut self, name: &str) -> Result<()> {
        let mut set = cmd("SET");
        set.arg(name).arg(&self.value).arg("NX").arg("PX").arg(TTL.as_millis() as u64);
        while set.query_async::<Option<String>>(&mut self.connection).await?.is_none() {
            sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    async fn release(&mut self, name: &str) -> Result<()> {
        const DELETE_OWN: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
             return redis.call('DEL', KEYS[1]) end return 0";
        let mut delete = cmd("EVAL");
        delete.arg(DELETE_OWN).arg(1).arg(name).arg(&self.value);
        delete.query_async::<i64>(&mut self.connection).await?;
        Ok(())
    }
}
