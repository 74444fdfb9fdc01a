//! etcd: the application adds a comparison of the fence to its own transaction.

use async_trait::async_trait;
use leasehold::etcd::etcd_client::{Client, Compare, CompareOp, Txn, TxnOp};
use leasehold::etcd::{EtcdBackend, EtcdFence};
use leasehold::{Fence, FencingToken};

use crate::stock::{Error, STOCK, Stock};

pub(crate) struct EtcdStock {
    fence: EtcdFence,
    /// The application's own client, without the library.
    client: Client,
}

impl EtcdStock {
    pub(crate) async fn at(url: &str) -> Result<Self, Error> {
        let members = url.trim_start_matches("etcd://").split(['/', ',']).take(1);
        Ok(Self {
            fence: EtcdBackend::connect(url).await?.fence(STOCK),
            client: Client::connect(members.collect::<Vec<_>>(), None).await?,
        })
    }
}

#[async_trait]
impl Stock for EtcdStock {
    async fn fill(&self, lamps: i64) -> Result<(), Error> {
        self.client.kv_client().put(STOCK, lamps.to_string(), None).await?;
        Ok(())
    }

    async fn read(&self, token: FencingToken) -> Result<i64, Error> {
        self.fence.advance(token).await?;
        let found = self.client.kv_client().get(STOCK, None).await?;
        let lamps = found.kvs().first().ok_or("no stock was filled in")?;
        Ok(lamps.value_str()?.parse()?)
    }

    async fn write(&self, token: FencingToken, lamps: i64) -> Result<bool, Error> {
        let fence = self.fence.comparison(token);
        let transaction = Txn::new()
            .when([Compare::value(fence.key, CompareOp::Equal, fence.value)])
            .and_then([TxnOp::put(STOCK, lamps.to_string(), None)]);
        Ok(self.client.kv_client().txn(transaction).await?.succeeded())
    }
}
