//! Dangers to one lock that only Redis has (C31).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::join;
use lock_core::{BackendError, Finding, LockState};
use redis::cmd;

use crate::operations::backend::RedisBackend;
use crate::operations::companions::{Form, spoilt};
use crate::protocol::keys::Keys;
use crate::protocol::reply;

/// Number of holders of one lock above which its requests delay those of other locks.
const CROWD: usize = 300;

/// The companions of a lock.
const COMPANIONS: [(&str, Form); 3] =
    [("fence", Form::Token), ("queue", Form::Of("zset")), ("waiters", Form::Of("hash"))];

/// Least lead of a grant before the server's clock that shows a step of the clock.
const STEP: Duration = Duration::from_secs(1);

impl RedisBackend {
    /// Examines a lock whose state was just seen. A question that the server refuses to this user finds nothing.
    pub(crate) async fn examine_lock(&self, state: &LockState) -> Vec<Finding> {
        let (step_back, raw_key) = join(self.step_back(state), self.raw_key(state)).await;
        let asked = [step_back, raw_key].into_iter().filter_map(Result::ok).flatten();
        let companions = spoilt(&self.server, &state.name, &COMPANIONS).await;
        crowd(state).into_iter().chain(asked).chain(companions).collect()
    }

    /// Finds a hold that was granted later than now by the server's clock: the hold of a dead holder lasts longer by
    /// the step of that clock.
    async fn step_back(&self, state: &LockState) -> Result<Option<Finding>, BackendError> {
        let Some(since) = state.holders.iter().filter_map(|holder| holder.since).max() else {
            return Ok(None);
        };
        let time = self.server.send(&Keys::new(&state.name).lock(), cmd("TIME")).await?;
        let (seconds, micros): (u64, u64) = reply::read(time, "TIME")?;
        let now = Duration::from_secs(seconds).saturating_add(Duration::from_micros(micros));
        Ok(stepped_back(state, since, UNIX_EPOCH.checked_add(now).unwrap_or(UNIX_EPOCH)))
    }

    /// C29: a client in another language uses the plain name as its key.
    async fn raw_key(&self, state: &LockState) -> Result<Option<Finding>, BackendError> {
        let (name, keys) = (state.name.as_str(), Keys::new(&state.name));
        let key = keys.lock().to_string();
        if key == name {
            return Ok(None);
        }
        let mut exists = cmd("EXISTS");
        exists.arg(name);
        let exists: bool = reply::read(self.server.send(&name, exists).await?, "EXISTS")?;
        let seen = format!(
            "there is a key \"{name}\": a client in another language may hold the lock by it, beside the holders \
             here, whose key is \"{key}\""
        );
        let remedy = "let the other client use that key, or choose a name without {, } and %";
        Ok(exists.then(|| Finding::risk("name", seen, remedy)))
    }
}

/// C38: every request of a lock reads all its holders.
fn crowd(state: &LockState) -> Option<Finding> {
    let holders = state.holders.len();
    let seen = format!(
        "lock \"{}\" has {holders} holders at once: each renewal and each request reads all of them, and other \
         locks of the server wait meanwhile",
        state.name
    );
    let remedy = "share the work among several locks, with some hundred holders each at most";
    (holders > CROWD).then(|| Finding::risk("holders", seen, remedy))
}

fn stepped_back(state: &LockState, since: SystemTime, now: SystemTime) -> Option<Finding> {
    let ahead = since.duration_since(now).ok().filter(|ahead| *ahead > STEP)?;
    let seen = format!(
        "lock \"{}\" was granted {ahead:.1?} after the present time of the server: its clock stepped back, and the \
         hold of a holder that died lasts longer by that",
        state.name
    );
    let remedy = "set the server's clock right, or evict the holder if it is dead";
    Some(Finding::risk("clock", seen, remedy))
}
