//! Connects to the servers of a store.

use std::sync::Arc;

use lock_core::{BackendError, LockError};

use crate::operations::backend::RedisBackend;
use crate::topology::Topology;
use crate::topology::options::RedisOptions;
use crate::wire::link::Role;
use crate::wire::node::Node;
use crate::wire::push::new_channel;

impl RedisBackend {
    /// Connects to the server at `url`, and checks that it answers.
    ///
    /// # Errors
    /// - [`LockError::Config`] if the URL cannot be used. The text does not repeat it, since it may hold
    ///   a password.
    /// - [`LockError::Backend`] if the server cannot be reached, or refuses us.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    pub async fn connect(url: &str) -> Result<Self, LockError> {
        RedisOptions::new(url).connect().await
    }
}

impl RedisOptions {
    /// Connects, and checks that the server answers. Of several servers, any one may answer and name the others.
    ///
    /// # Errors
    /// - [`LockError::Config`] if the URL or the certificates cannot be used, or the URL has an unknown parameter, or
    ///   asks for TLS, a cluster or sentinels that are not compiled in.
    /// - [`LockError::Backend`] if the server cannot be reached, or refuses us.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    pub async fn connect(self) -> Result<RedisBackend, LockError> {
        self.certificates_of_url()?.read().await?;
        let server = match self.scheme() {
            "redis-cluster" | "rediss-cluster" => cluster(&self).await?,
            "redis-sentinel" | "rediss-sentinel" => sentinel(&self).await?,
            _ => one_server(&self).await?,
        };
        Ok(RedisBackend::new(server, self.clock))
    }
}

async fn one_server(options: &RedisOptions) -> Result<Topology, LockError> {
    let node = Arc::new(Node::new(String::new(), options.opener()?, Role::Any, new_channel()));
    node.reach().await.map_err(not_connected)?;
    Ok(Topology::One(node))
}

#[cfg(feature = "cluster")]
async fn cluster(options: &RedisOptions) -> Result<Topology, LockError> {
    let cluster = crate::topology::Cluster::new(options)?;
    cluster.look_first().await.map_err(not_connected)?;
    Ok(Topology::Cluster(cluster))
}

#[cfg(not(feature = "cluster"))]
async fn cluster(_options: &RedisOptions) -> Result<Topology, LockError> {
    Err(crate::topology::options::unusable("a cluster needs the feature `cluster` of `lock-redis`"))
}

#[cfg(feature = "sentinel")]
async fn sentinel(options: &RedisOptions) -> Result<Topology, LockError> {
    let sentinels = crate::topology::Sentinels::new(options)?;
    Ok(Topology::Sentinel(sentinels.find().await.map_err(not_connected)?))
}

#[cfg(not(feature = "sentinel"))]
async fn sentinel(_options: &RedisOptions) -> Result<Topology, LockError> {
    Err(crate::topology::options::unusable("sentinels need the feature `sentinel` of `lock-redis`"))
}

fn not_connected(source: BackendError) -> LockError {
    LockError::Backend { operation: "connect", name: None, source }
}
