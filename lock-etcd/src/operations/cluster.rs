//! One cluster, and this client's resources in it.

use std::sync::Arc;

use lock_core::LockError;

use crate::layout::keys::Root;
use crate::operations::keeper::Keeper;
use crate::options::Target;
use crate::protocol::floor::Floors;
use crate::sessions::claims::Claims;
use crate::sessions::marks::Marks;
use crate::waiting::waiters::Waiters;
use crate::waiting::watches::Watches;
use crate::wire::server::Server;

/// The connection to a cluster, and the claims and sessions of this client in it. Clones share them.
///
/// Other files have the operations: attempts, renewals, endings, listings.
#[derive(Clone)]
pub(crate) struct Cluster {
    pub(crate) server: Arc<Server>,
    pub(crate) root: Root,
    pub(crate) floors: Arc<Floors>,
    pub(crate) claims: Arc<Claims>,
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) marks: Arc<Marks>,
    pub(crate) waiters: Arc<Waiters>,
    pub(crate) watches: Arc<Watches>,
}

impl Cluster {
    /// Connects, and checks that a member answers.
    pub(crate) async fn connect(target: Target) -> Result<Self, LockError> {
        let cluster = Self::new(target);
        let answer = cluster.server.first_answer(&cluster.root.all_claims()).await;
        answer.map_err(|source| LockError::Backend { operation: "connect", name: None, source })?;
        Ok(cluster)
    }

    /// Connects when it is first needed.
    pub(crate) fn new(target: Target) -> Self {
        let server = Arc::new(Server::new(target.endpoints, target.options, target.root.floor()));
        let watches = Arc::new(Watches::new(server.clone()));
        let claims = Arc::new(Claims::new(server.clone(), target.root.clone()));
        let waiters = Arc::new(Waiters::new(server.clone(), claims.clone(), watches.clone()));
        Self {
            keeper: Arc::new(Keeper::new(server.clone(), claims.clone(), waiters.clone())),
            waiters,
            floors: Arc::new(Floors::new(server.clone(), &target.root)),
            marks: Arc::default(),
            root: target.root,
            server,
            claims,
            watches,
        }
    }
}
