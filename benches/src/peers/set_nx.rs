//! The recipe of the usual blog post: no token, no renewal, no queue.

use std::time::Duration;

use async_trait::async_trait;
use redis::aio::MultiplexedConnection;
use redis::{Script, cmd};
use tokio::time::sleep;

use crate::client::{Client, Result, TTL};
use crate::contender::Contender;

/// Interval of its polls.
pub(super) const POLL: Duration = Duration::from_millis(10);

pub(super) const DELETE_OWN: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
     return redis.call('DEL', KEYS[1]) end return 0";

pub(crate) const SET_NX: Contender = Contender {
    name: "SET NX PX",
    connect: |url| {
        Box::pin(async move {
            let connection = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
            Ok(Box::new(SetNx::by(connection)) as Box<dyn Client>)
        })
    },
};

struct SetNx {
    connection: MultiplexedConnection,
    value: String,
    delete_own: Script,
}

impl SetNx {
    fn by(connection: MultiplexedConnection) -> Self {
        let value = rand::random::<u128>().to_string();
        Self { connection, value, delete_own: Script::new(DELETE_OWN) }
    }
}

#[async_trait]
impl Client for SetNx {
    async fn acquire(&mut self, name: &str) -> Result<()> {
        let mut set = cmd("SET");
        set.arg(name).arg(&self.value).arg("NX").arg("PX").arg(TTL.as_millis() as u64);
        while set.query_async::<Option<String>>(&mut self.connection).await?.is_none() {
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
        Box::new(Self::by(self.connection.clone()))
    }
}
