//! Two PINGs.

use async_trait::async_trait;
use redis::aio::MultiplexedConnection;
use redis::cmd;

use crate::client::{Client, Result};
use crate::contender::Contender;

pub(crate) const PINGS: Contender = Contender {
    name: "2 PINGs",
    connect: |url| {
        Box::pin(async move {
            let connection = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
            Ok(Box::new(Pings(connection)) as Box<dyn Client>)
        })
    },
};

struct Pings(MultiplexedConnection);

#[async_trait]
impl Client for Pings {
    async fn acquire(&mut self, _: &str) -> Result<()> {
        Ok(cmd("PING").query_async(&mut self.0).await?)
    }

    async fn release(&mut self, name: &str) -> Result<()> {
        self.acquire(name).await
    }

    fn another(&self) -> Box<dyn Client> {
        Box::new(Self(self.0.clone()))
    }
}
