//! The project's own client as a contender.

use async_trait::async_trait;
use leasehold::{LockClient, LockGuard, LockRequest};

use crate::client::{Client, Connecting, Result, TTL};
use crate::contender::{Contender, OURS};

pub(crate) const LEASEHOLD: Contender = Contender { name: OURS, connect };

pub(crate) struct Leasehold {
    client: LockClient,
    held: Option<LockGuard>,
}

pub(crate) fn connect(url: String) -> Connecting {
    Box::pin(async move {
        let client = leasehold::connect(&url).await?;
        Ok(Box::new(Leasehold { client, held: None }) as Box<dyn Client>)
    })
}

#[async_trait]
impl Client for Leasehold {
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
