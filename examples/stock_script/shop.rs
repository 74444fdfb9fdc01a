//! The shop: two keys, which are in one slot of a cluster by their hash tag.

use redis::{Cmd, FromRedisValue, Script, aio::MultiplexedConnection, cmd};

use crate::server::Failure;

/// Number of lamps of a full shop.
pub(crate) const STOCK: u32 = 100;

const STOCK_KEY: &str = "example:{lamps}:stock";
const SALES_KEY: &str = "example:{lamps}:sales";

/// The shop as one client sees it.
pub(crate) struct Shop {
    redis: MultiplexedConnection,
}

impl Shop {
    pub(crate) async fn open(url: &str) -> Result<Self, Failure> {
        Ok(Self { redis: redis::Client::open(url)?.get_multiplexed_async_connection().await? })
    }

    /// Full shelves, and somebody has put a text where the list of sales should be.
    pub(crate) async fn with_broken_sales(url: &str) -> Result<Self, Failure> {
        let shop = Self::open(url).await?;
        shop.fill(STOCK).await?;
        let () = shop.ask(cmd("SET").arg(SALES_KEY).arg("sold out?")).await?;
        Ok(shop)
    }

    /// Forgets all sales, also of an earlier run.
    pub(crate) async fn fill(&self, stock: u32) -> Result<(), Failure> {
        self.clear().await?;
        self.ask(cmd("SET").arg(STOCK_KEY).arg(stock)).await
    }

    pub(crate) async fn clear(&self) -> Result<(), Failure> {
        self.ask(cmd("DEL").arg(&[STOCK_KEY, SALES_KEY])).await
    }

    /// Runs a script that sells one; whether it did.
    pub(crate) async fn sell(&self, script: &str, buyer: u32) -> Result<bool, Failure> {
        let script = Script::new(script);
        let mut call = script.key(STOCK_KEY);
        let call = call.key(SALES_KEY).arg(buyer);
        Ok(call.invoke_async(&mut self.redis.clone()).await?)
    }

    pub(crate) async fn left(&self) -> Result<u32, Failure> {
        self.ask(cmd("GET").arg(STOCK_KEY)).await
    }

    /// Returns the number of sales written down.
    pub(crate) async fn sales(&self) -> Result<u32, Failure> {
        self.ask(cmd("LLEN").arg(SALES_KEY)).await
    }

    async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, Failure> {
        Ok(command.query_async(&mut self.redis.clone()).await?)
    }
}
