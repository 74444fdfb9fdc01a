//! Which server a request goes to.

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt, ready};
use lock_core::{BackendError, Finding};

use crate::protocol::error::RequestError;
use crate::scripts::Servers;
use crate::wire::batch::Manner;
use crate::wire::node::Node;

/// A key, written only if somebody has to read it.
pub(crate) type KeyText<'a> = &'a dyn Fn() -> Vec<u8>;

/// The servers that keep locks, and which of them keeps which.
pub(crate) trait Topology: Send + Sync {
    /// The server that keeps a key, as far as is known.
    fn node_of(&self, key: KeyText<'_>) -> Result<Arc<Node>, BackendError>;

    /// Learns from a request that failed at `node`, and tells where it goes instead if the server told.
    fn redirected(&self, node: &Node, error: &RequestError) -> Option<Way>;

    /// Shows all servers that keep locks.
    fn visit(&self, visitor: &mut dyn FnMut(&Arc<Node>));

    /// How many servers there are.
    fn servers(&self) -> Servers {
        Servers::Several
    }

    /// Looks at what tells of the servers, if that are others.
    fn examine(&self) -> BoxFuture<'_, Option<Finding>> {
        ready(None).boxed()
    }

    /// Splits `count` keys into those that may go in one request each, by their numbers.
    fn together(&self, count: usize, _key: &dyn Fn(usize) -> Vec<u8>) -> Vec<Vec<usize>> {
        vec![(0..count).collect()]
    }
}

/// Where a request goes, and how it is put there.
pub(crate) struct Way {
    pub(crate) node: Arc<Node>,
    pub(crate) manner: Manner,
}

/// One address, behind which all locks are kept.
pub(crate) struct Single {
    pub(crate) node: Arc<Node>,
    /// Whether a replica may take over behind the address.
    pub(crate) servers: Servers,
}

impl Topology for Single {
    fn node_of(&self, _key: KeyText<'_>) -> Result<Arc<Node>, BackendError> {
        Ok(self.node.clone())
    }

    fn redirected(&self, _node: &Node, _error: &RequestError) -> Option<Way> {
        None
    }

    fn visit(&self, visitor: &mut dyn FnMut(&Arc<Node>)) {
        visitor(&self.node);
    }

    fn servers(&self) -> Servers {
        self.servers
    }
}
