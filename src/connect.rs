//! Connects a client by URL.

use lock_core::{ClientOptions, DistributedLock, LockClient, LockError};
use std::sync::Arc;

use crate::connector::Connector;

/// Connects to the locks at `url`.
///
/// | URL | locks | feature |
/// | --- | --- | --- |
/// | `memory:` | of this client alone | |
/// | `memory:NAME` | of this process, shared by all who use the name | |
/// | `file:DIRECTORY` | of the processes of this machine; with `?filesystem=local` on a file system that is not known to be local | |
/// | `etcd://[user:password@]host[:port][,host[:port]…][/root]` | of an etcd cluster | `etcd` |
/// | `etcds://…` | the same, by TLS | `etcd-tls` |
/// | `postgres://[user[:password]@]host[:port][/database]` | of a Postgres database | `postgres` |
/// | `redis://[user:password@]host[:port][/database]` | of a Redis server | `redis` |
/// | `rediss://…` | the same, by TLS | `redis-rustls` or `redis-native-tls` |
/// | `redis-cluster://[user:password@]host[:port][,host[:port]…]` | of a Redis Cluster; by TLS `rediss-cluster://` | `redis-cluster` |
/// | `redis-sentinel://[user:password@]host[:port][,host[:port]…]/name[?db=n]` | of the primary that Redis Sentinel knows by this name; by TLS `rediss-sentinel://` | `redis-sentinel` |
/// | `redis-quorum://[user:password@]host[:port],host[:port],host[:port][/database]` | of a majority of three or five independent Redis servers; by TLS `rediss-quorum://` | `redis-quorum` |
/// | `redis+unix:///path[?db=n&user=u&pass=p]` | the same, by a unix socket | `redis` |
/// | `zookeeper://[user:password@]host[:port][,host[:port]…][/root]` | of a ZooKeeper ensemble | `zookeeper` |
/// | `zookeepers://…` | the same, by TLS | `zookeeper-tls` |
///
/// Every backend takes `?prefix=shop:`, which puts a prefix before all names (C49), so that several services can
/// share a store: the lock "42" is the lock "shop:42" of the store. Without it, the lock's name is its name in
/// the store. A backend refuses parameters that it does not know.
///
/// A [`Connector`] takes further schemes.
///
/// # Errors
/// - [`LockError::Config`] if the URL cannot be used, or names a backend that is not compiled in: the text names
///   the feature to enable. The error does not repeat the URL, which may hold a password.
/// - [`LockError::Backend`] if the server cannot be reached or refuses. There is one attempt:
///   [`Connector::retry_for`] waits for a server that is down.
///
/// # Cancel safety
/// Dropping the future closes the connection.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), leasehold::LockError> {
/// let locks = leasehold::connect("memory:").await?;
/// let guard = locks.acquire("stock:42").await?;
/// # Ok(()) }
/// ```
pub async fn connect(url: &str) -> Result<LockClient, LockError> {
    Connector::new().connect(url).await
}

/// Connects to the locks at `url`, with options: time-outs, and defaults of requests.
///
/// # Errors
/// As [`connect`].
///
/// # Cancel safety
/// As [`connect`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), leasehold::LockError> {
/// use std::time::Duration;
/// use leasehold::{ClientOptions, Wait};
///
/// let options = ClientOptions::new().wait(Wait::AtMost(Duration::from_secs(2))).label("web-3");
/// let locks = leasehold::connect_with("memory:", options).await?;
/// # Ok(()) }
/// ```
pub async fn connect_with(url: &str, options: ClientOptions) -> Result<LockClient, LockError> {
    Connector::new().connect_with(url, options).await
}

/// Opens the backend at `url`, for a client or for tests of the backend.
///
/// # Errors
/// As [`connect`].
///
/// # Cancel safety
/// As [`connect`].
pub async fn backend(url: &str) -> Result<Arc<dyn DistributedLock>, LockError> {
    Connector::new().backend(url).await
}
