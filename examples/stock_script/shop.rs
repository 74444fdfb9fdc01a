//! The shop: two keys, in one slot of a cluster by their hash tag.

use redis::{Cmd, FromRedisValue, Script, aio::MultiplexedConnection, cmd};

use crate::server::Failure;

/// Number of lamps of a full shop.
pub(crate) const STOCK: u32 = 100;

const STOCK_KEY: &str = "example:{lamps}:stock";
const SALES_KEY: &str = "example:{lamps}:sales";

/// The shop, for one client.
pub(crate) struct Shop {
    redis: MultiplexedConnection,
}

impl Shop {
    pub(crate) async fn open(url: &str) -> Result<Self, Failure> {
        Ok(Self { redis: redis::Client::open(url)?.get_multiplexed_async_connection().await? })
    }

    /// Opens a full shop whose list of sales is replaced by a text.
    pub(crate) async fn with_broken_sales(url: &str) -> Result<Self, Failure> {
        let shop = Self::open(url).await?;
        shop.fill(STOCK).await?;
        let () = shop.ask(cmd("SET").arg(SALES_KEY).arg("sold out?")).await?;
        Ok(shop)
    }

    /// Deletes all sales, also those of an earlier run.
    pub(crate) async fn fill(&self, stock: u32) -> Result<(), Failure> {
        self.clear().await?;
        self.ask(cmd("SET").arg(STOCK_KEY).arg(stock)).await
    }

    pub(crate) async fn clear(&self) -> Result<(), Failure> {
        self.ask(cmd("DEL").arg(&[STOCK_KEY, SALES_KEY])).await
    }

    /// Runs a script that sells one; returns true if it did.
    pub(crate) async fn sell(&self, script: &str, buyer: u32) -> Result<bool, Failure> {
        let script = Script::new(script);
        let mut call = script.key(STOCK_KEY);
        let call = call.key(SALES_KEY).arg(buyer);
        Ok(call.invoke_async(&mut self.redis.clone()).await?)
    }

    pub(crate) async fn left(&self) -> Result<u32, Failure> {
        self.ask(cmd("GET").arg(STOCK_KEY)).await
    }

    /// Returns the number of logged sales.
    pub(crate) async fn sales(&self) -> Result<u32, Failure> {
        self.ask(cmd("LLEN").arg(SALES_KEY)).await
    }

    async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, Failure> {
        Ok(command.query_async(&mut self.redis.clone()).await?)
    }
}
