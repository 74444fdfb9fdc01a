//! The servers of a store, and the choice of one for a request.

#[cfg(feature = "cluster")]
mod cluster;
#[cfg(feature = "cluster")]
mod discovery;
#[cfg(any(feature = "cluster", feature = "quorum", feature = "sentinel"))]
pub(crate) mod hosts;
mod kind;
pub(crate) mod options;
mod requests;
pub(crate) mod rights;
#[cfg(feature = "sentinel")]
mod sentinel;

use std::sync::Arc;

use lock_core::{BackendError, Finding, OwnerId};
use redis::ToRedisArgs;

#[cfg(feature = "cluster")]
pub(crate) use self::cluster::Cluster;
pub(crate) use self::requests::{in_order, picked};
#[cfg(feature = "sentinel")]
pub(crate) use self::sentinel::{Sentinels, Watched};
use crate::protocol::error::RequestError;
use crate::scripts::Servers;
use crate::wire::batch::Manner;
use crate::wire::node::Node;

/// The servers that keep locks, and the choice of the one for a key.
pub(crate) enum Topology {
    /// One address with all locks; a replica may take over behind it.
    One(Arc<Node>),
    #[cfg(feature = "cluster")]
    Cluster(Cluster),
    /// The primary that sentinels name.
    #[cfg(feature = "sentinel")]
    Sentinel(Watched),
}

impl Topology {
    /// Returns the server of `key`, as far as it is known.
    pub(crate) fn node_of(&self, key: &impl ToRedisArgs) -> Result<Arc<Node>, BackendError> {
        let _ = key;
        match self {
            Self::One(node) => Ok(node.clone()),
            #[cfg(feature = "cluster")]
            Self::Cluster(cluster) => cluster.node_of(&text_of(key)),
            #[cfg(feature = "sentinel")]
            Self::Sentinel(primary) => primary.node(),
        }
    }

    /// Learns from a request that failed at `node`. Returns its next server if `node` named one.
    fn redirected(&self, node: &Node, error: &RequestError) -> Option<(Arc<Node>, Manner)> {
        let _ = (node, error);
        match self {
            #[cfg(feature = "cluster")]
            Self::Cluster(cluster) => cluster.redirected(node, error),
            _ => None,
        }
    }

    /// Returns all servers with locks: at least one, unless none is known.
    pub(crate) fn nodes(&self) -> Vec<Arc<Node>> {
        match self {
            Self::One(node) => vec![node.clone()],
            #[cfg(feature = "cluster")]
            Self::Cluster(cluster) => cluster.primaries(),
            #[cfg(feature = "sentinel")]
            Self::Sentinel(primary) => vec![primary.current()],
        }
    }

    /// Returns the number of servers with locks.
    pub(crate) fn servers(&self) -> Servers {
        match self {
            #[cfg(feature = "cluster")]
            Self::Cluster(_) => Servers::Spread,
            _ => Servers::One,
        }
    }

    /// Returns true if locks are on several servers, so that one request cannot name any two.
    pub(crate) fn is_spread(&self) -> bool {
        self.servers() == Servers::Spread
    }

    /// Fails if locks may be on servers that are not known.
    pub(crate) fn check_complete(&self) -> Result<(), BackendError> {
        match self {
            #[cfg(feature = "cluster")]
            Self::Cluster(cluster) => cluster.check_slots(),
            _ => Ok(()),
        }
    }

    /// Checks the sentinels that name the server, or the slots of a cluster.
    pub(crate) async fn examine(&self) -> Option<Finding> {
        match self {
            #[cfg(feature = "cluster")]
            Self::Cluster(cluster) => {
                let remedy = "give them a server, by `redis-cli --cluster fix`";
                let missing = cluster.check_slots().err()?;
                Some(Finding::risk("slots", missing.to_string(), remedy))
            }
            #[cfg(feature = "sentinel")]
            Self::Sentinel(primary) => Some(primary.examine().await),
            _ => None,
        }
    }

    /// Returns a number that is the same for all keys of one server.
    pub(crate) fn number_of(&self, key: &impl ToRedisArgs) -> u64 {
        match self.is_spread() {
            true => self.node_of(key).map_or(0, |node| Arc::as_ptr(&node).addr() as u64),
            false => 0,
        }
    }

    /// Removes the waiter of `owner`.
    pub(crate) fn unregister(&self, owner: OwnerId) {
        self.nodes().iter().for_each(|node| node.push.unregister(owner));
    }

    /// Groups `keys` that one request may name, as numbers of the keys.
    pub(crate) fn together(&self, keys: &[impl ToRedisArgs]) -> Vec<Vec<usize>> {
        match self {
            #[cfg(feature = "cluster")]
            Self::Cluster(_) => cluster::by_slot(keys.iter().map(text_of)),
            _ => vec![(0..keys.len()).collect()],
        }
    }
}

/// Returns a key as the server reads it.
#[cfg(feature = "cluster")]
fn text_of(key: &impl ToRedisArgs) -> Vec<u8> {
    key.to_redis_args().into_iter().next().unwrap_or_default()
}
