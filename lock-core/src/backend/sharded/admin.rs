//! What operators ask of several stores.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::{join_all, try_join_all};
use tokio::time::timeout;

use super::layout::Place;
use super::member::Member;
use super::moving::{self, is_closed};
use super::sharded_lock::ShardedLock;
use crate::backend::admin::{Changes, LockAdmin};
use crate::model::{BackendError, Finding, Holder, LockName, LockState, Whom};

/// How many locks of a shard the doctor looks at.
const EXAMINED: usize = 1000;

/// How long it may take to list them.
const EXAMINATION: Duration = Duration::from_millis(500);

impl ShardedLock {
    /// What a listing shows of one shard.
    async fn list_of(
        &self,
        member: &Member,
        prefix: &str,
        limit: usize,
    ) -> Result<Vec<LockState>, BackendError> {
        let mut asked = limit;
        loop {
            let states = member.named(member.backend.list(prefix, asked).await)?;
            let is_all = states.len() < asked;
            let shown = states.into_iter().filter(|state| self.is_shown(member, state));
            let shown: Vec<LockState> = shown.collect();
            if is_all || shown.len() >= limit {
                return Ok(shown);
            }
            // Locks that were closed, or that others left here, took the places of some.
            asked = asked.saturating_mul(2);
        }
    }

    /// Whether a lock of the shard is one that our clients look for there.
    fn is_shown(&self, member: &Member, state: &LockState) -> bool {
        let place = self.place(&state.name);
        let is_former = place.former.is_some_and(|former| former.id == member.id);
        place.home.id == member.id || (is_former && !is_closed(state))
    }

    /// What the doctor of one shard finds, and what is held there by clients of another list.
    async fn examine(&self, member: &Member, prefix: &str) -> Result<Vec<Finding>, BackendError> {
        let found = member.named(member.backend.doctor_under(prefix).await)?;
        let stray = self.examine_names(member, prefix).await?;
        let named = |finding: Finding| Finding {
            seen: format!("shard {}: {}", member.id, finding.seen),
            ..finding
        };
        Ok(found.into_iter().map(named).chain(stray).collect())
    }

    /// What is held on a shard by clients of another list.
    async fn examine_names(
        &self,
        member: &Member,
        prefix: &str,
    ) -> Result<Option<Finding>, BackendError> {
        let listing = timeout(EXAMINATION, member.backend.list(prefix, EXAMINED));
        let Ok(held) = listing.await else { return Ok(Some(too_many(member))) };
        let held = member.named(held)?;
        let is_stray = |state: &&LockState| !self.is_shown(member, state) && !is_closed(state);
        Ok(held.iter().find(is_stray).map(|state| stray(member, &state.name)))
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl LockAdmin for ShardedLock {
    /// Of a name that moves, the state on the shard where clients of the former list hold it, if they do.
    async fn inspect(&self, name: &LockName) -> Result<LockState, BackendError> {
        let Place { home, former } = self.place(name);
        if let Some(former) = former {
            let state = former.named(former.backend.inspect(name).await)?;
            if !state.holders.is_empty() && !is_closed(&state) {
                return Ok(state);
            }
        }
        home.named(home.backend.inspect(name).await)
    }

    fn changes(&self, name: &LockName) -> Option<Changes> {
        match self.place(name) {
            Place { home, former: None } => home.backend.changes(name),
            Place { former: Some(_), .. } => None,
        }
    }

    async fn list(&self, prefix: &str, limit: usize) -> Result<Vec<LockState>, BackendError> {
        let members = self.layout.members.iter();
        let lists = try_join_all(members.map(|member| self.list_of(member, prefix, limit))).await?;
        Ok(LockState::listed(lists.into_iter().flatten(), prefix, limit))
    }

    async fn evict(&self, name: &LockName, whom: &Whom) -> Result<Vec<Holder>, BackendError> {
        let Place { home, former } = self.place(name);
        let mut ended = match former {
            Some(former) => moving::evict(former, name, whom).await?,
            None => Vec::new(),
        };
        ended.extend(home.named(home.backend.evict(name, whom).await)?);
        Ok(ended)
    }

    async fn doctor(&self) -> Result<Vec<Finding>, BackendError> {
        self.doctor_under("").await
    }

    /// A shard that does not answer is a finding, unless none does.
    async fn doctor_under(&self, prefix: &str) -> Result<Vec<Finding>, BackendError> {
        let members = self.layout.members.iter();
        let examined = join_all(members.map(|member| self.examine(member, prefix))).await;
        if examined.iter().all(Result::is_err) {
            return examined.into_iter().next().unwrap_or_else(|| Ok(Vec::new()));
        }
        Ok(examined.into_iter().flat_map(|examined| examined.unwrap_or_else(silent)).collect())
    }
}

/// There may be a million locks, and the examination of the other shards must not wait for that.
fn too_many(member: &Member) -> Finding {
    let seen =
        format!("shard {}: it has too many locks to look for those of other lists", member.id);
    Finding::unknown("shards", seen, "see by `leasehold ps` who holds what")
}

/// S3: the other client may be granted what we are granted elsewhere.
fn stray(member: &Member, name: &LockName) -> Finding {
    let seen = format!(
        "shard {}: the lock \"{name}\" is held there by a client that was given other shards",
        member.id
    );
    Finding::risk("shards", seen, "give all clients the same shards; mark one that joins or leaves")
}

/// What is said of a shard that does not answer.
fn silent(error: BackendError) -> Vec<Finding> {
    let remedy =
        "until it is back nobody is granted its locks, and those of the others are as ever";
    vec![Finding::risk("shards", error.to_string(), remedy)]
}
