//! What is measured on a server: the project, other lock libraries, and plain recipes.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use leasehold::{LockClient, LockGuard, LockRequest};

pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

pub(crate) const TTL: Duration = Duration::from_secs(10);

pub(crate) type NewClient = BoxFuture<'static, Result<Box<dyn Client>>>;

/// A lock library, or a recipe.
#[derive(Clone, Copy)]
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    /// A client of its own of the server at a URL.
    pub(crate) client: fn(String) -> NewClient,
}

/// A client that holds one lock at a time.
#[async_trait]
pub(crate) trait Client: Send {
    async fn acquire(&mut self, name: &str) -> Result<()>;
    async fn release(&mut self, name: &str) -> Result<()>;

    /// Leaves the server as it was.
    async fn clear_up(&mut self) -> Result<()> {
        Ok(())
    }
}

/// The project.
pub(crate) struct Leasehold {
    client: LockClient,
    held: Option<LockGuard>,
}

impl Leasehold {
    pub(crate) async fn at(url: &str) -> Result<Box<dyn Client>> {
        Ok(Box::new(Self { client: leasehold::connect(url).await?, held: None }))
    }
}

#[async_trait]
impl Client for Leasehold {
    async fn acquire(&mut self, name: &str) -> Result<()> {
        self.held = Some(self.client.acquire(LockRequest::new(name).ttl(TTL)).await?);
        Ok(())
    }

    async fn release(&mut self, _: &str) -> Result<()> {
        if let Some(guard) = self.held.take() {
            guard.release().await?;
        }
        Ok(())
    }
}
