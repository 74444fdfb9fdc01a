//! The primary that sentinels name: the one server that keeps all locks, until another takes over.
//!
//! ```text
//!   sentinels ── "who is the primary called so?" ──▶ address ── ROLE: "master"? ──▶ the server
//!       ▲                                                                               │
//!       └──────────── it does not answer, or takes no writes any more ──────────────────┘
//! ```
//!
//! A request that fails, or that a replica refuses, gives up its [connection](crate::connection), and is asked again
//! (C15). Until a connection is open again, each request has the sentinels asked meanwhile. They name the old primary
//! until they agree that it is gone. A server that does
//! not say of itself that it is the primary is not taken: a sentinel may know less than the others.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lock_core::{BackendError, LockError};
use redis::{Client, cmd};

use crate::discovery::{Lookout, ask_once, first_answer};
use crate::error::{RequestError, no_server, unknown_primary};
use crate::hosts::{Hosts, host_and_port};
use crate::link::Role;
use crate::node::Node;
use crate::options::{RedisOptions, unusable};
use crate::push::new_channel;
use crate::reply;
use crate::topology::{KeyText, Topology, Way};

const DEFAULT_PORT: u16 = 26379;

/// The sentinels, before any of them was asked.
pub(crate) struct Sentinels {
    /// What opens connections to each.
    clients: Vec<Client>,
    /// What they call the primary.
    name: String,
    /// What is the same for all servers that may be the primary.
    servers: Hosts,
    channel: Arc<str>,
    /// How often they were asked.
    looks: AtomicUsize,
}

/// The primary, as far as it is known.
pub(crate) struct Watched {
    known: Arc<Known>,
    lookout: Lookout,
}

struct Known {
    sentinels: Sentinels,
    primary: Mutex<Arc<Node>>,
}

impl Sentinels {
    /// The sentinels of a URL.
    pub(crate) fn new(options: &RedisOptions) -> Result<Self, LockError> {
        let mut parameters = options.parameters();
        let mut taken = |key| parameters.take(key).unwrap_or_default();
        let (user, password, database) =
            (taken("sentinel_user"), taken("sentinel_pass"), taken("db"));
        let (hosts, name) = Hosts::of(&options.at(parameters.url()), DEFAULT_PORT)?;
        if name.is_empty() || name.contains('/') {
            return Err(unusable(
                "it names the primary behind its hosts: redis-sentinel://host/name",
            ));
        }
        let sentinels = hosts.clone().with_login(&user, &password);
        let clients: Result<_, _> =
            hosts.addresses.iter().map(|address| sentinels.client(address)).collect();
        let servers = hosts.with_database(&database);
        servers.addresses.iter().try_for_each(|address| servers.client(address).map(drop))?;
        let channel = new_channel();
        Ok(Self { clients: clients?, name, servers, channel, looks: AtomicUsize::new(0) })
    }

    /// Asks for the primary, without which nothing can be done.
    pub(crate) async fn find(self) -> Result<Watched, BackendError> {
        let primary = Mutex::new(Arc::new(self.primary().await?));
        let known = Arc::new(Known { sentinels: self, primary });
        Ok(Watched { known, lookout: Lookout::default() })
    }

    /// The primary that a sentinel names, and that says so itself: first another sentinel each time, since one
    /// may be the last to learn of a change.
    async fn primary(&self) -> Result<Node, BackendError> {
        let first = self.looks.fetch_add(1, Ordering::Relaxed) % self.clients.len().max(1);
        let sentinels = self.clients.iter().cycle().skip(first).take(self.clients.len());
        first_answer(sentinels.map(|sentinel| self.primary_by(sentinel)).collect()).await
    }

    async fn primary_by(&self, sentinel: &Client) -> Result<Node, BackendError> {
        let mut question = cmd("SENTINEL");
        question.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.name);
        let answer = ask_once(sentinel.clone(), question).await?;
        let answer: Option<(String, u16)> = reply::read(answer, "the address of the primary")?;
        let (host, port) = answer.ok_or_else(unknown_primary)?;
        let address = host_and_port(&host, port);
        let unusable =
            |error| no_server("the sentinels name an address that cannot be used", error);
        let client = self.servers.client(&address).map_err(unusable)?;
        let node = Node::new(address, client, Role::Primary, self.channel.clone());
        node.send(cmd("PING")).await?;
        Ok(node)
    }
}

impl Known {
    async fn look(&self) -> Result<(), BackendError> {
        let found = self.sentinels.primary().await?;
        let mut primary = self.primary();
        // The same server keeps its connections, unless they failed.
        if primary.address != found.address || primary.connection.is_in_doubt() {
            *primary = Arc::new(found);
        }
        Ok(())
    }

    fn primary(&self) -> MutexGuard<'_, Arc<Node>> {
        self.primary.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watched {
    /// Has the sentinels asked who is the primary now.
    fn look_again(&self) {
        let known = self.known.clone();
        self.lookout.look(async move {
            // If it fails, the next request that fails begins another look.
            let _ = known.look().await;
        });
    }
}

impl Topology for Watched {
    fn node_of(&self, _key: KeyText<'_>) -> Result<Arc<Node>, BackendError> {
        let primary = self.known.primary().clone();
        // It may be back without its data, while another has taken over: the sentinels know.
        if primary.connection.is_in_doubt() {
            self.look_again();
            return Err(no_server("the primary failed", "the sentinels are asked for it"));
        }
        Ok(primary)
    }

    fn redirected(&self, _node: &Node, _error: &RequestError) -> Option<Way> {
        None
    }

    fn visit(&self, visitor: &mut dyn FnMut(&Arc<Node>)) {
        let primary = self.known.primary().clone();
        visitor(&primary);
    }
}
