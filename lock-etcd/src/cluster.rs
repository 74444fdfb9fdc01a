//! One cluster, and what this client has in it.

use std::sync::Arc;

use lock_core::LockError;

use crate::claims::Claims;
use crate::keys::Root;
use crate::leases::Leases;
use crate::options::Target;
use crate::server::Server;
use crate::waiters::Waiters;
use crate::watches::Watches;

/// The connection to a cluster, the claims of this client in it, and the leases they need. Clones share
/// them.
///
/// What is done with them is in files of their own: attempts, renewals, endings, listings.
#[derive(Clone)]
pub(crate) struct Cluster {
    pub(crate) server: Arc<Server>,
    pub(crate) root: Root,
    pub(crate) leases: Arc<Leases>,
    pub(crate) claims: Arc<Claims>,
    pub(crate) waiters: Arc<Waiters>,
    pub(crate) watches: Arc<Watches>,
}

impl Cluster {
    /// Connects, and makes sure that a member answers.
    pub(crate) async fn connect(target: Target) -> Result<Self, LockError> {
        let server = Arc::new(Server::new(target.endpoints, target.options));
        server
            .first_answer(&target.root.starting_with(""))
            .await
            .map_err(|source| LockError::Backend { operation: "connect", name: None, source })?;
        let watches = Arc::new(Watches::new(server.clone()));
        Ok(Self {
            leases: Arc::new(Leases::new(server.clone())),
            waiters: Arc::new(Waiters::new(server.clone(), watches.clone())),
            claims: Arc::default(),
            root: target.root,
            server,
            watches,
        })
    }
}
