//! A Redis Cluster: many servers, each of which keeps the locks of some slots.
//!
//! All keys of a lock are in one slot (see [`keys`](crate::protocol::keys)), so each request is for one server. The map of
//! slots is the client's guess. The servers know better, and say so:
//!
//! | the server says | what it means | what the client does |
//! | --- | --- | --- |
//! | `MOVED slot address` | the slot is there now | asks there, and looks at the map anew |
//! | `ASK slot address` | the slot moves there, and this key has gone already | asks there this once |
//! | `TRYAGAIN` | the slot moves, and the keys of the lock are apart for now | the call is tried again |
//! | `CLUSTERDOWN` | no server has the slot, or a majority of servers is away | looks anew; the call is tried again |
//! | nothing | it is gone, and a replica may have taken over | looks anew; the call is tried again |
//!
//! A server that names another has not carried out the request.
//!
//! # Late requests (C19)
//! A claim may be withdrawn at another server than the one it was sent to. The two requests go over different links
//! then, so that the withdrawal leaves a [mark](crate::operations). A late request finds the slot gone, or it came
//! before the keys went to the other server, and what it took came along.
//!
//! # Why no sharded channels
//! A script publishes in the slots of its keys alone, if the channel is sharded. A client would need a channel for
//! each lock that it waits for. With plain channels it has one. A server counts as listening only the clients
//! that are connected to itself, and a waiter that nobody hears is passed over. So a client listens at each primary
//! that keeps a lock for which it waits. A message also crosses the cluster's bus, and may come twice: the
//! second is for nobody. A grant that counts for nothing is not published, since the bus would carry it.

mod map;
mod slots;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lock_core::{BackendError, LockError};
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

/// A cluster, as far as it is known.
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
    /// The cluster of the hosts of a URL, none of which has been asked yet.
    pub(crate) fn new(options: &RedisOptions) -> Result<Self, LockError> {
        let (hosts, path) = Hosts::of(options, DEFAULT_PORT)?;
        if !matches!(&*path, "" | "0") {
            return Err(unusable("a cluster has one database, which no path names"));
        }
        let known = Known { hosts, channel: new_channel(), map: Mutex::default() };
        Ok(Self { known: Arc::new(known), lookout: Lookout::default() })
    }

    /// Asks for the servers, without which nothing can be done.
    pub(crate) async fn look_first(&self) -> Result<(), BackendError> {
        self.known.look().await
    }

    /// The server that has the slot of `key`.
    pub(super) fn node_of(&self, key: &[u8]) -> Result<Arc<Node>, BackendError> {
        let node = self.known.map().node_of(slot_of(key));
        if node.as_ref().is_none_or(|node| node.connection.is_in_doubt()) {
            self.look_again();
        }
        node.ok_or_else(|| {
            no_server("no server of the cluster has the lock's slot", "none is named")
        })
    }

    /// Where a request goes that failed at `node`, if the server named another.
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
        self.known.map().primaries().cloned().collect()
    }

    /// Has the servers asked where the slots are now.
    fn look_again(&self) {
        let known = self.known.clone();
        self.lookout.look(async move {
            // If it fails, the next request that fails begins another look.
            let _ = known.look().await;
        });
    }
}

impl Known {
    async fn look(&self) -> Result<(), BackendError> {
        let addresses = self.map().next_to_ask(&self.hosts.addresses);
        let questions = addresses.iter().map(|address| self.shards_by(address)).collect();
        let shards = first_answer(questions).await?;
        self.map().replace(shards, |address| self.node_at(address));
        Ok(())
    }

    /// Returns the slots by the word of the server at `address`.
    async fn shards_by(&self, address: &str) -> Result<Vec<Shard>, BackendError> {
        let unusable = |error| no_server("the cluster names an address that cannot be used", error);
        let client = self.hosts.client(address).map_err(unusable)?;
        let mut slots = cmd("CLUSTER");
        slots.arg("SLOTS");
        shards(ask_once(client, slots).await?, host_of(address))
    }

    fn node_at(&self, address: &str) -> Option<Node> {
        let client = self.hosts.client(address).ok()?;
        Some(Node::new(address.to_owned(), client, Role::Any, self.channel.clone()))
    }

    /// Where `MOVED` or `ASK` sends a request. Without a host it means the one that answered.
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
        let mut map = self.map();
        let node = map.node_at(&address, || self.node_at(&address))?;
        if manner == Manner::Plain {
            map.moved(slot, node.clone());
        }
        Some((node, manner))
    }

    fn map(&self) -> MutexGuard<'_, Map> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Splits keys into those of one slot each, by their numbers.
pub(super) fn by_slot(keys: impl Iterator<Item = Vec<u8>>) -> Vec<Vec<usize>> {
    let mut by_slot = BTreeMap::<u16, Vec<usize>>::new();
    for (number, key) in keys.enumerate() {
        by_slot.entry(slot_of(&key)).or_default().push(number);
    }
    by_slot.into_values().collect()
}

/// The host of `host:port`.
fn host_of(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _)| host)
}
