//! Renews many holds by few requests (C12).
//!
//! A request to a cluster may name only keys of one slot, and a hundred holds are in nearly as many slots. But a
//! script may use keys that the request does not name, of all slots of its server. So one script renews the holds of
//! one server, with their keys as arguments.
//!
//! ```text
//!                       ┌──▶ renewed, or lost
//!   holds of a server ──┤
//!    (one call, which   └──▶ left: the server has not the slot,   ──▶ a call for each slot,
//!     names no keys)         or not the key while the slot moves       which names its keys
//! ```
//!
//! This is as safe as a request that names the keys. The server checks each command of a script as it checks a
//! request for the same key. If the slot has gone, or is moving and the key has gone before it, the server refuses
//! the command. So a hold elsewhere never counts as lost. It is skipped, and renewed by a call that names its key;
//! the servers redirect that call to the key. Holds on a server that does not run such scripts are renewed in the
//! same way.

use std::borrow::Borrow;

use futures_util::future::join_all;
use lock_core::BackendError;
use lock_core::backend::{Extension, Renewal};

use crate::operations::backend::RedisBackend;
use crate::protocol::error::unreadable;
use crate::protocol::keys::{Key, Keys};
use crate::protocol::reply;
use crate::scripts::{EXTEND, EXTEND_ACROSS_SLOTS};
use crate::topology::{in_order, picked};

impl RedisBackend {
    /// Renews holds; on a cluster they should be on one server.
    pub(crate) async fn renew(&self, renewals: &[Renewal]) -> Vec<Result<Extension, BackendError>> {
        let answers = self.extend_across_slots(renewals).await;
        let asked = renewals.iter().zip(&answers);
        let left: Vec<&Renewal> =
            asked.filter(|(_, answer)| answer.is_none()).map(|(renewal, _)| renewal).collect();
        let mut by_slot = self.extend_by_slot(&left).await.into_iter();
        let answer = |answer: Option<Extension>| match answer {
            Some(answer) => Ok(answer),
            None => by_slot.next().unwrap_or_else(|| Err(unreadable("the answer to renewals"))),
        };
        answers.into_iter().map(answer).collect()
    }

    /// Renews holds of several slots of one server by one call; `None` for each skipped hold.
    async fn extend_across_slots(&self, renewals: &[Renewal]) -> Vec<Option<Extension>> {
        let none = || vec![None; renewals.len()];
        let ([first, _, ..], true) = (renewals, self.server.is_spread()) else { return none() };
        let Ok(node) = self.server.node_of(&Keys::new(&first.name).lock()) else { return none() };
        let of_each = |renewal: &Renewal| {
            let lock = Keys::new(&renewal.name).lock().to_string();
            [lock, hold(renewal), renewal.ttl.as_millis().to_string()]
        };
        let of_all = renewals.iter().flat_map(of_each);
        let args: Vec<String> =
            [longest_ttl(renewals).to_string()].into_iter().chain(of_all).collect();
        let reply = self.server.run_at(node, &EXTEND_ACROSS_SLOTS, args).await;
        reply.and_then(|reply| reply::extensions(renewals, reply)).unwrap_or_else(|_| none())
    }

    /// Renews holds by one call for each slot, which names the keys.
    async fn extend_by_slot(&self, renewals: &[&Renewal]) -> Vec<Result<Extension, BackendError>> {
        let keys: Vec<Keys<'_>> = renewals.iter().map(|renewal| Keys::new(&renewal.name)).collect();
        let keys: Vec<_> = keys.iter().map(Keys::lock).collect();
        let groups = self.server.together(&keys);
        let requests = groups.iter().map(|group| self.extend_slot(renewals, &keys, group));
        let answers = join_all(requests).await;
        in_order(groups, answers)
    }

    /// Renews the holds with these numbers, whose keys one request may name.
    async fn extend_slot(
        &self,
        renewals: &[&Renewal],
        keys: &[Key<'_>],
        group: &[usize],
    ) -> Vec<Result<Extension, BackendError>> {
        let renewals: Vec<&Renewal> = picked(renewals, group).copied().collect();
        let keys: Vec<Key<'_>> = picked(keys, group).copied().collect();
        let reply = self.server.run(&EXTEND, &keys, holds_and_ttls(&renewals)).await;
        match reply.and_then(|reply| reply::extensions(&renewals, reply)) {
            Ok(answers) => {
                let told = |answer: Option<_>| answer.ok_or_else(|| unreadable("a renewal"));
                answers.into_iter().map(told).collect()
            }
            Err(error) => renewals.iter().map(|_| Err(error.clone())).collect(),
        }
    }
}

/// Returns the arguments for holds whose locks are a script's keys: the longest TTL, each hold, and each TTL. The
/// TTLs are left out if all are the same, which is common, since each argument costs the server time.
pub(crate) fn holds_and_ttls(renewals: &[impl Borrow<Renewal>]) -> Vec<String> {
    let longest = longest_ttl(renewals);
    let mut args = vec![longest.to_string()];
    args.extend(renewals.iter().map(Borrow::borrow).map(hold));
    let ttls = || renewals.iter().map(|renewal| renewal.borrow().ttl.as_millis());
    if ttls().any(|ttl| ttl != longest) {
        args.extend(ttls().map(|ttl| ttl.to_string()));
    }
    args
}

fn longest_ttl(renewals: &[impl Borrow<Renewal>]) -> u64 {
    renewals.iter().map(|renewal| renewal.borrow().ttl.as_millis()).max().unwrap_or(0)
}

/// Returns the start of a lock's value that identifies this hold.
fn hold(Renewal { owner, token, .. }: &Renewal) -> String {
    format!("{}:{token}:", owner.expose())
}
