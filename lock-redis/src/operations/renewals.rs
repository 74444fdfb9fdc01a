//! Renews many holds by few requests (C12).
//!
//! A request to a cluster may name keys of one slot alone, and a hundred holds lie in nearly as many slots. But a
//! script may use keys that the request does not name, of all the slots that its server has. So the holds of one
//! server are renewed by one script, to which their keys are arguments.
//!
//! ```text
//!                       ┌──▶ renewed, or lost
//!   holds of a server ──┤
//!    (one call, which   └──▶ left: the server has not the slot,   ──▶ a call for each slot,
//!     names no keys)         or not the key while the slot moves       which names its keys
//! ```
//!
//! This is as safe as to name them. The server checks each command of a script as it checks a request for the same
//! key: if the slot has gone, or moves and the key has gone before it, the command is refused. So a hold is never
//! taken for lost because it is elsewhere. It is left, and asked for by a call that names its key, which the servers send
//! on to where the key is. So is every hold whose server does not run such scripts.

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
    /// Renews holds, which on a cluster should be those of one server.
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

    /// Renews holds of several slots of one server by one call; `None` for each that is left.
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

    /// Renews holds by one call for those of each slot, which names their keys.
    async fn extend_by_slot(&self, renewals: &[&Renewal]) -> Vec<Result<Extension, BackendError>> {
        let keys: Vec<Keys<'_>> = renewals.iter().map(|renewal| Keys::new(&renewal.name)).collect();
        let keys: Vec<_> = keys.iter().map(Keys::lock).collect();
        let groups = self.server.together(&keys);
        let requests = groups.iter().map(|group| self.extend_slot(renewals, &keys, group));
        let answers = join_all(requests).await;
        in_order(groups, answers)
    }

    /// Renews those of the holds, by their numbers, whose keys one request may name.
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

/// Returns the arguments for holds whose locks are a script's keys: the longest TTL, each hold, and each TTL unless all
/// have the longest, as most do: each argument costs the server time.
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

/// Returns the start of a lock's value that is this hold's.
fn hold(Renewal { owner, token, .. }: &Renewal) -> String {
    format!("{}:{token}:", owner.expose())
}
