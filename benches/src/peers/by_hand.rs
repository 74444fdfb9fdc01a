//! The usual recipe of blog posts, written by hand: no queue, no renewal, no repair. Two forms: as published, and
//! with a fencing token, which gives the same guarantee as the project: a script takes the lock and counts.

use std::time::Duration;

use async_trait::async_trait;
use redis::aio::MultiplexedConnection;
use redis::{Script, cmd};
use tokio::time::sleep;

use crate::client::{Client, Result, TTL};
use crate::contender::Contender;

/// Interval of its polls.
const POLL: Duration = Duration::from_millis(10);

/// -> the token; nothing if another owner has the lock.
const TAKE_AND_COUNT: &str = "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then \
     return redis.call('INCR', KEYS[2]) end return false";

const DELETE_OWN: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
     return redis.call('DEL', KEYS[1]) end return 0";

pub(crate) const SET_NX: Contender = Contender {
    name: "SET NX PX",
    connect: |url| Box::pin(async move { ByHand::connect(url, None).await }),
};

pub(crate) const WITH_A_TOKEN: Contender = Contender {
    name: "by hand with a token",
    connect: |url| {
        Box::pin(async move { ByHand::connect(url, Some(Script::new(TAKE_AND_COUNT))).await })
    },
};

struct ByHand {
    connection: MultiplexedConnection,
    value: String,
    /// Takes a lock and counts its token; without it a plain `SET` takes the lock.
    take_and_count: Option<Script>,
    delete_own: Script,
}

impl ByHand {
    async fn connect(url: String, take_and_count: Option<Script>) -> Result<Box<dyn Client>> {
        let connection = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
        Ok(Box::new(Self::by(connection, take_and_count)))
    }

    fn by(connection: MultiplexedConnection, take_and_count: Option<Script>) -> Self {
        let value = rand::random::<u128>().to_string();
        Self { connection, value, take_and_count, delete_own: Script::new(DELETE_OWN) }
    }

    async fn takes(&mut self, name: &str) -> Result<bool> {
        let ttl = TTL.as_millis() as u64;
        if let Some(take) = &self.take_and_count {
            let mut take = take.key(name);
            take.key(format!("{{{name}}}:fence")).arg(&self.value).arg(ttl);
            return Ok(take.invoke_async::<Option<u64>>(&mut self.connection).await?.is_some());
        }
        let mut set = cmd("SET");
        set.arg(name).arg(&self.value).arg("NX").arg("PX").arg(ttl);
        Ok(set.query_async::<Option<String>>(&mut self.connection).await?.is_some())
    }
}

#[async_trait]
impl Client for ByHand {
    async fn acquire(&mut self, name: &str) -> Result<()> {
        while !self.takes(name).await? {
            sleep(POLL).await;
        }
        Ok(())
    }

    async fn release(&mut self, name: &str) -> Result<()> {
        let mut delete = self.delete_own.key(name);
        delete.arg(&self.value).invoke_async::<i64>(&mut self.connection).await?;
        Ok(())
    }

    fn another(&self) -> Box<dyn Client> {
        Box::new(Self::by(self.connection.clone(), self.take_and_count.clone()))
    }
}
