//! The server of each slot, as far as the client knows.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::slots::{SLOTS, Shard};
use crate::wire::node::Node;

/// The server of each slot.
#[derive(Default)]
pub(super) struct Map {
    /// In the order of the slots.
    shards: Vec<(RangeInclusive<u16>, Arc<Node>)>,
    /// Changes that single servers reported since the map was last replaced.
    moved: BTreeMap<u16, Arc<Node>>,
    /// Servers without slots that will receive some, by their addresses.
    newcomers: BTreeMap<String, Arc<Node>>,
    /// All named servers, with replicas, since they know the map too.
    servers: BTreeSet<String>,
    /// Number of requests for the map.
    looks: usize,
}

impl Map {
    /// Returns the server of `slot`.
    pub(super) fn node_of(&self, slot: u16) -> Option<Arc<Node>> {
        if let Some(node) = self.moved.get(&slot) {
            return Some(node.clone());
        }
        let next = self.shards.partition_point(|(slots, _)| *slots.end() < slot);
        let (slots, node) = self.shards.get(next)?;
        slots.contains(&slot).then(|| node.clone())
    }

    /// Returns true if each slot has a server.
    pub(super) fn is_complete(&self) -> bool {
        (0..SLOTS).all(|slot| self.node_of(slot).is_some())
    }

    /// Returns the servers with slots, each once.
    pub(super) fn primaries(&self) -> impl Iterator<Item = &Arc<Node>> {
        let all = self.shards.iter().map(|(_, node)| node).chain(self.moved.values());
        all.map(|node| (&*node.address, node)).collect::<BTreeMap<_, _>>().into_values()
    }

    /// Returns the server at `address`, which another server has named.
    pub(super) fn node_at(
        &mut self,
        address: &str,
        make: impl FnOnce() -> Option<Node>,
    ) -> Option<Arc<Node>> {
        let known = self.primaries().find(|node| node.address == address).cloned();
        if let Some(node) = known.or_else(|| self.newcomers.get(address).cloned()) {
            return Some(node);
        }
        let node = Arc::new(make()?);
        self.newcomers.insert(address.to_owned(), node.clone());
        Some(node)
    }

    /// Notes that `node` has `slot`, as a server answered.
    pub(super) fn moved(&mut self, slot: u16, node: Arc<Node>) {
        self.moved.insert(slot, node);
    }

    /// Replaces the map by a server's answer. Servers that still have slots keep their connections.
    pub(super) fn replace(&mut self, shards: Vec<Shard>, make: impl Fn(&str) -> Option<Node>) {
        let mut known = std::mem::take(&mut self.newcomers);
        known.extend(self.primaries().map(|node| (node.address.clone(), node.clone())));
        let named = shards.iter().flat_map(|shard| shard.replicas.iter().chain([&shard.primary]));
        self.servers = named.cloned().collect();
        self.moved.clear();
        self.shards.clear();
        for Shard { slots, primary, .. } in shards {
            let node = known.get(&primary).cloned().or_else(|| make(&primary).map(Arc::new));
            if let Some(node) = node {
                known.insert(primary, node.clone());
                self.shards.push((slots, node));
            }
        }
        self.shards.sort_by_key(|(slots, _)| *slots.start());
    }

    /// Returns the servers to ask for the map, in another order each time, since a server may be the last to learn of
    /// a change. The hosts of the URL are last.
    pub(super) fn next_to_ask(&mut self, hosts: &[String]) -> Vec<String> {
        self.looks += 1;
        let mut servers: Vec<String> = self.servers.iter().cloned().collect();
        let first = self.looks % servers.len().max(1);
        servers.rotate_left(first);
        let others = hosts.iter().filter(|host| !self.servers.contains(*host));
        servers.extend(others.cloned());
        servers
    }
}
