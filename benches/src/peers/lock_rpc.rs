//! etcd's own Lock call.

use async_trait::async_trait;
use leasehold::etcd::etcd_client::{self, LockOptions};

use crate::client::{Client, Result};
use crate::contender::Contender;
use crate::floors::put_and_delete::driver;

/// TTL of its leases in seconds. They are not renewed: a bench is shorter.
const AN_HOUR: i64 = 60 * 60;

pub(crate) const LOCK_RPC: Contender = Contender {
    name: "Lock RPC",
    connect: |url| {
        Box::pin(async move {
            let mut client = LockRpc::by(driver(&url).await?);
            client.lease().await?;
            Ok(Box::new(client) as Box<dyn Client>)
        })
    },
};

struct LockRpc {
    client: etcd_client::Client,
    /// Each task has its own: the holders of one lease do not exclude each other.
    lease: Option<i64>,
    key: Vec<u8>,
}

impl LockRpc {
    fn by(client: etcd_client::Client) -> Self {
        Self { client, lease: None, key: Vec::new() }
    }

    async fn lease(&mut self) -> Result<i64> {
        match self.lease {
            Some(lease) => Ok(lease),
            None => {
                let lease = self.client.lease_grant(AN_HOUR, None).await?.id();
                self.lease = Some(lease);
                Ok(lease)
            }
        }
    }
}

#[async_trait]
impl Client for LockRpc {
    async fn acquire(&mut self, name: &str) -> Result<()> {
        let options = LockOptions::new().with_lease(self.lease().await?);
        self.key = self.client.lock(name, Some(options)).await?.key().to_vec();
        Ok(())
    }

    async fn release(&mut self, _: &str) -> Result<()> {
        self.client.unlock(self.key.clone()).await?;
        Ok(())
    }

    fn another(&self) -> Box<dyn Client> {
        Box::new(Self::by(self.client.clone()))
    }
}
