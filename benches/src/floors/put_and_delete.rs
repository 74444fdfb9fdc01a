//! A put, then a delete.

use async_trait::async_trait;
use leasehold::etcd::etcd_client;

use crate::client::{Client, Result};
use crate::contender::Contender;

pub(crate) const PUT_AND_DELETE: Contender = Contender {
    name: "put and delete",
    connect: |url| {
        Box::pin(async move { Ok(Box::new(PutAndDelete(driver(&url).await?)) as Box<dyn Client>) })
    },
};

/// Connects the driver alone.
pub(crate) async fn driver(url: &str) -> Result<etcd_client::Client> {
    let member = url.trim_start_matches("etcd://").trim_end_matches('/');
    Ok(etcd_client::Client::connect([member], None).await?)
}

struct PutAndDelete(etcd_client::Client);

#[async_trait]
impl Client for PutAndDelete {
    async fn acquire(&mut self, name: &str) -> Result<()> {
        self.0.put(name, "value", None).await?;
        Ok(())
    }

    async fn release(&mut self, name: &str) -> Result<()> {
        self.0.delete(name, None).await?;
        Ok(())
    }

    fn another(&self) -> Box<dyn Client> {
        Box::new(Self(self.0.clone()))
    }
}
