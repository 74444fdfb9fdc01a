//! The project's own client as a contender.

use async_trait::async_trait;
use leasehold::{LockClient, LockGuard, LockRequest};

use crate::client::{Client, Result, TTL};
use crate::contender::{Contender, OURS};

pub(crate) const LEASEHOLD: Contender = Contender::of::<Leasehold>(OURS);

pub(crate) struct Leasehold {
    client: LockClient,
    held: Option<LockGuard>,
}

#[async_trait]
impl Client for Leasehold {
    async fn connect(url: &str) -> Result<Self> {
        Ok(Self { client: leasehold::connect(url).await?, held: None })
    }

    async fn acquire(&mut self, name: &str) -> Result<()> {
        self.held = Some(self.client.acquire(LockRequest::new(name).ttl(TTL)).await?);
        Ok(())
    }

    async fn release(&mut self, _: &str) -> Result<()> {
        match self.held.take() {
            Some(guard) => Ok(guard.release().await?),
            None => Ok(()),
        }
    }

    fn another(&self) -> Box<dyn Client> {
        Box::new(Self { client: self.client.clone(), held: None })
    }

    async fn close(&mut self) {
        self.client.shutdown().await;
    }
}
