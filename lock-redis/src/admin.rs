//! What operators ask: to look at locks, to list them, to end a hold, to examine the server.

use async_trait::async_trait;
use lock_core::backend::Changes;
use lock_core::{
    BackendError, DistributedLock, Finding, Holder, LockAdmin, LockName, LockRequest, LockState,
    Whom,
};
use redis::cmd;

use crate::backend::RedisBackend;
use crate::changes::changes;
use crate::doctor;
use crate::error::unreadable;
use crate::keys::{self, Keys};
use crate::reply;
use crate::scripts::{EVICT, INSPECT};

/// How many locks one request of a listing looks at.
const INSPECT_STEP: usize = 100;

#[async_trait]
impl LockAdmin for RedisBackend {
    async fn inspect(&self, name: &LockName) -> Result<LockState, BackendError> {
        let state = self.inspect_all(std::slice::from_ref(name)).await?.pop();
        state.unwrap_or_else(|| Err(unreadable("the state of a lock")))
    }

    fn changes(&self, name: &LockName) -> Option<Changes> {
        Some(changes(self.push.clone(), self.key_events.watch(name)))
    }

    async fn list(&self, prefix: &str, limit: usize) -> Result<Vec<LockState>, BackendError> {
        let mut held = Vec::new();
        for page in self.names(prefix).await?.chunks(INSPECT_STEP) {
            // A key that is no lock hides no lock.
            let states = self.inspect_all(page).await?.into_iter().filter_map(Result::ok);
            held.extend(states.filter(|state| state.holder().is_some()));
            if held.len() >= limit {
                break;
            }
        }
        held.truncate(limit);
        Ok(held)
    }

    async fn evict(&self, name: &LockName, whom: &Whom) -> Result<Vec<Holder>, BackendError> {
        let limit = self.clock_limit();
        let args = (limit, owner_digits(whom));
        let reply = self.server.run(&EVICT, &Keys::new(name).granting(), args).await?;
        reply::ended(reply, whom)
    }

    async fn doctor(&self) -> Result<Vec<Finding>, BackendError> {
        self.doctor_under("").await
    }

    async fn doctor_under(&self, prefix: &str) -> Result<Vec<Finding>, BackendError> {
        doctor::examine(&self.server, self.take_and_give_back(prefix)).await
    }
}

impl RedisBackend {
    /// Looks at several locks in one request. Those whose key is no lock are an error each.
    async fn inspect_all(
        &self,
        names: &[LockName],
    ) -> Result<Vec<Result<LockState, BackendError>>, BackendError> {
        let keys: Vec<Keys<'_>> = names.iter().map(Keys::new).collect();
        let keys: Vec<_> = keys.iter().flat_map(|keys| [keys.lock(), keys.waiters()]).collect();
        reply::states(names, self.server.run(&INSPECT, &keys, None::<u64>).await?)
    }

    /// The names that start with `prefix` of all locks that have a token counter, sorted.
    async fn names(&self, prefix: &str) -> Result<Vec<LockName>, BackendError> {
        let counters = self.server.keys(&keys::counters(prefix)).await?;
        let name = |counter: &String| keys::name_of_counter(counter);
        let mut names: Vec<LockName> = counters.iter().filter_map(name).collect();
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    /// Does what a client does, with a lock of the doctor's own, which is among those that the client's
    /// user has rights on.
    async fn take_and_give_back(&self, prefix: &str) -> Result<(), BackendError> {
        let request = LockRequest::new(format!("{prefix}{}", doctor::PROBE)).ttl(doctor::PROBE_TTL);
        let claim = request.claim().map_err(|_| unreadable(doctor::PROBE))?;
        let attempt = self.try_acquire(&claim, None).await;
        self.withdraw(&claim.name, claim.owner).await.and(attempt.map(drop))?;
        let mut publish = cmd("PUBLISH");
        publish.arg(&*self.channel).arg("");
        self.server.send(publish).await?;
        self.push.open().await
    }
}

/// How the owner of an eviction begins; empty for all.
fn owner_digits(whom: &Whom) -> &str {
    match whom {
        Whom::All => "",
        Whom::Owner(digits) => digits,
    }
}
