//! A Redis Cluster: many servers, each of which keeps the locks of some slots.
//!
//! All keys of a lock are in one slot (see [`keys`](crate::protocol::keys)), so each request is for one server. The
//! client's map of slots may be outdated. The servers know better, and correct it:
//!
//! | server's answer | meaning | client's action |
//! | --- | --- | --- |
//! | `MOVED slot address` | the slot is there now | asks there, and reads the map again |
//! | `ASK slot address` | the slot is moving there, and this key has gone already | asks there this once |
//! | `TRYAGAIN` | the slot is moving, and the keys of the lock are separated for now | the call is tried again |
//! | `CLUSTERDOWN` | no server has the slot, or a majority of servers is away | reads the map again; the call is tried again |
//! | nothing | it is gone, and a replica may have taken over | reads the map again; the call is tried again |
//!
//! A server that names another has not carried out the request.
//!
//! # Late requests (C19)
//! A claim may be withdrawn at another server than its requests were sent to. The two requests then use different
//! links, so the withdrawal leaves a [mark](crate::operations). A late request either finds the slot gone, or was
//! carried out before the keys moved, and then its hold moved too.
//!
//! # Why no sharded channels
//! With sharded channels, a script publishes only in the slots of its keys, so a client would need a channel for each
//! lock that it waits for. With plain channels it has one. But a server counts only clients that are connected to
//! itself as listeners, and skips a waiter without a listener. So a client listens at each primary with a lock for
//! which it waits. A message also crosses the cluster's bus, and may come twice: the second one is ignored. A grant
//! without effect is not published, since the bus would carry it.

mod map;
mod slots;

use std::collections::BTreeMap;
use std::sync::Arc;

use lock_core::{BackendError, LockError};
use parking_lot::Mutex;
use redis::cmd;

use self::map::Map;
use self::slots::{Shard, shards, slot_of};
use crate::protocol::error::{RequestError, code_of, no_server};
use crate::topology::discovery::{Lookout, ask_once, first_answer};
use crate::topology::hosts::{Hosts, host_and_port};
use crate::topology::options::{RedisOptions, unusable};
use crate::wire::batch::Manner;
use crate::wire::link::Role;
use crate::wire::node::Node;
use crate::wire::push::new_channel;

const DEFAULT_PORT: u16 = 6379;

/// A cluster, as far as the client knows.
pub(crate) struct Cluster {
    known: Arc<Known>,
    lookout: Lookout,
}

struct Known {
    hosts: Hosts,
    channel: Arc<str>,
    map: Mutex<Map>,
}

impl Cluster {
    /// Returns the cluster of the hosts of a URL, none of which has been asked yet.
    pub(crate) fn new(options: &RedisOptions) -> Result<Self, LockError> {
        let (hosts, path) = Hosts::of(options, DEFAULT_PORT)?;
        if !matches!(&*path, "" | "0") {
            return Err(unusable("a cluster has one database: leave the path out"));
        }
        let known = Known { hosts, channel: new_channel(), map: Mutex::default() };
        Ok(Self { known: Arc::new(known), lookout: Lookout::default() })
    }

    /// Asks for the servers. Nothing works before this.
    pub(crate) async fn look_first(&self) -> Result<(), BackendError> {
        self.known.look().await
    }

    /// Returns the server of the slot of `key`.
    pub(super) fn node_of(&self, key: &[u8]) -> Result<Arc<Node>, BackendError> {
        let node = self.known.map.lock().node_of(slot_of(key));
        if node.as_ref().is_none_or(|node| node.connection.is_in_doubt()) {
            self.look_again();
        }
        node.ok_or_else(|| {
            no_server("no server of the cluster has the lock's slot", "none is named")
        })
    }

    /// Returns the next server for a request that failed at `node`, if `node` named one.
    pub(super) fn redirected(
        &self,
        node: &Node,
        error: &RequestError,
    ) -> Option<(Arc<Node>, Manner)> {
        let RequestError::Execute(error) = error else { return None };
        let manner = match &*code_of(error) {
            "ASK" => Manner::Asking,
            "MOVED" | "CLUSTERDOWN" => {
                self.look_again();
                Manner::Plain
            }
            _ => return None,
        };
        let (address, slot) = error.redirect_node()?;
        self.known.named(node, manner, address, slot)
    }

    pub(super) fn primaries(&self) -> Vec<Arc<Node>> {
        self.known.map.lock().primaries().cloned().collect()
    }

    /// Fails if some slots have no known server: nobody can list their locks.
    pub(super) fn check_slots(&self) -> Result<(), BackendError> {
        if self.known.map.lock().is_complete() {
            return Ok(());
        }
        self.look_again();
        Err(no_server("some slots of the cluster have no server", "none is named"))
    }

    /// Asks the servers for the slots again.
    fn look_again(&self) {
        let known = self.known.clone();
        self.lookout.look(async move {
            // If it fails, the next failed request begins another one.
            let _ = known.look().await;
        });
    }
}

impl Known {
    async fn look(&self) -> Result<(), BackendError> {
        let addresses = self.map.lock().next_to_ask(&self.hosts.addresses);
        let questions = addresses.iter().map(|address| self.shards_by(address)).collect();
        let shards = first_answer(questions).await?;
        self.map.lock().replace(shards, |address| self.node_at(address));
        Ok(())
    }

    /// Returns the slots, as the server at `address` reports them.
    async fn shards_by(&self, address: &str) -> Result<Vec<Shard>, BackendError> {
        let unusable = |error| no_server("the cluster names an address that cannot be used", error);
        let opener = self.hosts.opener(address).map_err(unusable)?;
        let mut slots = cmd("CLUSTER");
        slots.arg("SLOTS");
        shards(ask_once(opener, slots).await?, host_of(address))
    }

    fn node_at(&self, address: &str) -> Option<Node> {
        let opener = self.hosts.opener(address).ok()?;
        Some(Node::new(address.to_owned(), opener, Role::Any, self.channel.clone()))
    }

    /// Returns the server named in `MOVED` or `ASK`. Without a host the answering server is meant.
    fn named(
        &self,
        from: &Node,
        manner: Manner,
        address: &str,
        slot: u16,
    ) -> Option<(Arc<Node>, Manner)> {
        let (host, port) = address.rsplit_once(':')?;
        let host = if host.is_empty() { host_of(&from.address) } else { host };
        let address = host_and_port(host, port.parse().ok()?);
        let mut map = self.map.lock();
        let node = map.node_at(&address, || self.node_at(&address))?;
        if manner == Manner::Plain {
            map.moved(slot, node.clone());
        }
        Some((node, manner))
    }
}

/// Groups keys by slot, as numbers of the keys.
pub(super) fn by_slot(keys: impl Iterator<Item = Vec<u8>>) -> Vec<Vec<usize>> {
    let mut by_slot = BTreeMap::<u16, Vec<usize>>::new();
    for (number, key) in keys.enumerate() {
        by_slot.entry(slot_of(&key)).or_default().push(number);
    }
    by_slot.into_values().collect()
}

/// Returns the host of `host:port`.
fn host_of(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _)| host)
}
