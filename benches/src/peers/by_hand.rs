//! The same promise by hand: a lock with a fencing token, by one script each to take it and to give it back. It has no
//! queue and no renewal, and repairs nothing.

use async_trait::async_trait;
use redis::Script;
use redis::aio::MultiplexedConnection;
use tokio::time::sleep;

use super::set_nx::{DELETE_OWN, POLL};
use crate::client::{Client, Result, TTL};
use crate::contender::Contender;

/// -> the token; nothing if another has the lock.
const TAKE: &str = "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then \
     return redis.call('INCR', KEYS[2]) end return false";

pub(crate) const BY_HAND: Contender = Contender {
    name: "by hand with a token",
    connect: |url| {
        Box::pin(async move {
            let connection = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
            Ok(Box::new(ByHand::by(connection)) as Box<dyn Client>)
        })
    },
};

struct ByHand {
    connection: MultiplexedConnection,
    value: String,
    take: Script,
    delete_own: Script,
}

impl ByHand {
    fn by(connection: MultiplexedConnection) -> Self {
        let value = rand::random::<u128>().to_string();
        Self { connection, value, take: Script::new(TAKE), delete_own: Script::new(DELETE_OWN) }
    }
}

#[async_trait]
impl Client for ByHand {
    async fn acquire(&mut self, name: &str) -> Result<()> {
        let mut take = self.take.key(name);
        take.key(format!("{{{name}}}:fence")).arg(&self.value).arg(TTL.as_millis() as u64);
        while take.invoke_async::<Option<u64>>(&mut self.connection).await?.is_none() {
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
