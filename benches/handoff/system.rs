//! The servers that can be measured, and who is measured on them.

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use hdrhistogram::Histogram;
use leasehold::{LockClient, LockGuard, LockRequest};

use crate::workload::TTL;

pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Times in µs.
pub(crate) type Times = Histogram<u64>;

/// A server, and what can be measured on it.
#[async_trait]
pub(crate) trait System: Sync {
    fn url(&self) -> &str;

    /// Those that are compared, the project first.
    fn peers(&self) -> &'static [Peer];

    /// The least that an acquire and a release could cost here: two plain writes.
    fn two_writes(&self) -> Peer;

    /// What is the least that a hand-off could cost.
    fn wake_up(&self) -> &'static str;

    /// From a message of one client until another has it, many times.
    async fn wake_ups(&self) -> Result<Times>;

    /// How many commands the server has carried out, if it counts them.
    async fn commands(&self) -> Result<Option<u64>> {
        Ok(None)
    }
}

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

/// The systems that are compiled in, or the one at `url`.
pub(crate) async fn systems(url: Option<&str>) -> Result<Vec<Box<dyn System>>> {
    let mut systems: Vec<Box<dyn System>> = Vec::new();
    let wanted = |scheme: &str| url.is_none_or(|url| url.starts_with(scheme));
    #[cfg(feature = "redis")]
    if wanted("redis") {
        systems.push(Box::new(crate::redis::Redis::at(url).await));
    }
    #[cfg(feature = "etcd")]
    if wanted("etcd") {
        systems.push(Box::new(crate::etcd::Etcd::at(url).await));
    }
    #[cfg(feature = "postgres")]
    if wanted("postgres") {
        systems.push(Box::new(crate::postgres::Postgres::at(url).await));
    }
    match systems.is_empty() {
        false => Ok(systems),
        true => Err("no server to measure: build with the feature `redis`, `etcd` or `postgres`, \
                     and give a URL of its scheme or none"
            .into()),
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
