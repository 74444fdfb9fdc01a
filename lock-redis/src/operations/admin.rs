//! Interface of operators: inspection, listings, evictions and the doctor.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use lock_core::backend::{Changes, PROBE, Pages, take_and_give_back};
use lock_core::{BackendError, Finding, Holder, LockAdmin, LockName, LockState, Whom};
use redis::cmd;

use crate::operations::backend::RedisBackend;
use crate::operations::changes::changes;
use crate::operations::doctor;
use crate::protocol::error::unreadable;
use crate::protocol::keys::Keys;
use crate::protocol::listing::{States, Unused, list, pages};
use crate::protocol::reply;
use crate::scripts::{EVICT, INSPECT};
use crate::topology::{in_order, picked};

#[async_trait]
impl LockAdmin for RedisBackend {
    async fn inspect(&self, name: &LockName) -> Result<LockState, BackendError> {
        let state = self.inspect_all(std::slice::from_ref(name), Unused::Shown).await.pop();
        state.unwrap_or_else(|| Err(unreadable("the state of a lock")))
    }

    fn changes(&self, name: &LockName) -> Option<Changes> {
        Some(changes(self.server.clone(), name.clone()))
    }

    async fn list(&self, prefix: &str, limit: usize) -> Result<Vec<LockState>, BackendError> {
        self.list_within(prefix, limit, Duration::MAX).await
    }

    async fn list_within(
        &self,
        prefix: &str,
        limit: usize,
        time: Duration,
    ) -> Result<Vec<LockState>, BackendError> {
        let names = |time| async move { Ok(self.server.names_within(prefix, time).await) };
        let inspect =
            |page: Vec<LockName>| async move { Ok(self.inspect_all(&page, Unused::LeftOut).await) };
        list(time, limit, names, inspect).await
    }

    fn pages(&self, prefix: String, limit: usize) -> Pages<'_> {
        let names = async move { self.server.names_within(&prefix, Duration::MAX).await };
        let inspect = move |page: Vec<LockName>| async move {
            Ok(self.inspect_all(&page, Unused::LeftOut).await)
        };
        pages(names, limit, inspect)
    }

    async fn examine(&self, state: &LockState) -> Result<Vec<Finding>, BackendError> {
        Ok(self.examine_lock(state).await)
    }

    async fn evict(&self, name: &LockName, whom: &Whom) -> Result<Vec<Holder>, BackendError> {
        let limit = self.clock_limit();
        let args = (limit, owner_digits(whom));
        let reply = self.server.pass_on(&EVICT, name, args).await?;
        reply::ended(reply, whom)
    }

    async fn doctor(&self, prefix: &str) -> Result<Vec<Finding>, BackendError> {
        doctor::examine(&self.server, prefix, self.take_and_give_back(prefix)).await
    }
}

impl RedisBackend {
    /// Inspects several locks in as few requests as possible. A key that is no lock, and a server without an answer,
    /// are one error for each lock.
    async fn inspect_all(&self, names: &[LockName], unused: Unused) -> States {
        let keys: Vec<Keys<'_>> = names.iter().map(Keys::new).collect();
        let locks: Vec<_> = keys.iter().map(Keys::lock).collect();
        let groups = self.server.together(&locks);
        let requests =
            groups.iter().map(|group| self.inspect_together(names, &keys, group, unused));
        let states = join_all(requests).await;
        in_order(groups, states)
    }

    /// Inspects the locks with these numbers, whose keys one request may name.
    async fn inspect_together(
        &self,
        names: &[LockName],
        keys: &[Keys<'_>],
        group: &[usize],
        unused: Unused,
    ) -> States {
        let names: Vec<&LockName> = picked(names, group).collect();
        let keys: Vec<_> =
            picked(keys, group).flat_map(|keys| [keys.lock(), keys.waiters()]).collect();
        let reply = self.server.run(&INSPECT, &keys, unused.argument()).await;
        let states = reply.and_then(|reply| reply::states(&names, reply));
        states.unwrap_or_else(|error| names.iter().map(|_| Err(error.clone())).collect())
    }

    /// Acts as a client, with the doctor's own lock, to which the client's user has the rights.
    async fn take_and_give_back(&self, prefix: &str) -> Result<(), BackendError> {
        take_and_give_back(self, prefix).await?;
        let name = LockName::new(format!("{prefix}{PROBE}")).map_err(|_| unreadable(PROBE))?;
        let node = self.server.node_of(&Keys::new(&name).lock())?;
        let mut publish = cmd("PUBLISH");
        publish.arg(&*node.channel).arg("");
        node.send(publish).await?;
        node.push.open().await
    }
}

/// Returns the first digits of the owner of an eviction; empty for all.
fn owner_digits(whom: &Whom) -> &str {
    match whom {
        Whom::All => "",
        Whom::Owner(digits) => digits,
    }
}
