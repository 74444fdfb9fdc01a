//! Reads what the scripts answer.

use std::time::Duration;

use lock_core::backend::{Attempt, Claim, Grant, ServerTime};
use lock_core::{
    BackendError, Contention, FencingToken, Holder, Label, LockName, LockState, OwnerId,
};
use redis::{FromRedisValue, Value, from_redis_value};

use crate::error::unreadable;

/// Reads a reply as `T`.
pub(crate) fn read<T: FromRedisValue>(reply: Value, what: &'static str) -> Result<T, BackendError> {
    from_redis_value(reply).map_err(|_| unreadable(what))
}

/// Reads the answer of the acquire script.
pub(crate) fn attempt(claim: &Claim, reply: Value) -> Result<Attempt, BackendError> {
    const WHAT: &str = "the answer to an acquire";
    let parts: Vec<Value> = read(reply, WHAT)?;
    match <[Value; 3]>::try_from(parts) {
        Ok([_granted, token, now]) => {
            let token: String = read(token, WHAT)?;
            let token: FencingToken = token.parse().map_err(|_| unreadable(WHAT))?;
            Ok(Attempt::Granted(Grant::new(token, claim.ttl.as_duration()).at(server_time(now)?)))
        }
        Err(parts) => busy(<[Value; 5]>::try_from(parts).map_err(|_| unreadable(WHAT))?),
    }
}

fn busy([_busy, left, holder, place, now]: [Value; 5]) -> Result<Attempt, BackendError> {
    let mut contention = Contention::unknown();
    contention.ttl_left = millis(read(left, "a TTL")?);
    contention.holder = Label::new(read::<String>(holder, "a label")?).ok();
    contention.position = u64::try_from(read::<i64>(place, "a place")?).ok();
    contention.at = Some(server_time(now)?);
    Ok(Attempt::Busy(contention))
}

/// Reads the answer of the inspect script about the locks called `names`.
pub(crate) fn states(names: &[LockName], reply: Value) -> Result<Vec<LockState>, BackendError> {
    let states: Vec<(Option<Vec<u8>>, i64, u64)> = read(reply, "the state of locks")?;
    let state = |(name, (value, left, waiters)): (&LockName, (Option<Vec<u8>>, i64, u64))| {
        let holder = value.map(|value| holder(&value, millis(left)));
        LockState::new(name.clone(), holder, Some(waiters))
    };
    Ok(names.iter().zip(states).map(state).collect())
}

/// Reads the answer of the evict script.
pub(crate) fn ended(reply: Value) -> Result<Option<Holder>, BackendError> {
    let ended: Option<(Vec<u8>, i64)> = read(reply, "the answer to an eviction")?;
    Ok(ended.map(|(value, left)| holder(&value, millis(left))))
}

/// Reads the value of a lock key; what is not of our making is a foreign client's.
fn holder(value: &[u8], ttl_left: Option<Duration>) -> Holder {
    let ours = || {
        let mut parts = str::from_utf8(value).ok()?.splitn(3, ':');
        let owner: OwnerId = parts.next()?.parse().ok()?;
        let token = parts.next()?.parse().ok()?;
        let label = Label::new(parts.next()?).ok()?;
        Some(Holder::ours(owner, token, ttl_left?, label))
    };
    ours().unwrap_or_else(|| Holder::foreign(ttl_left))
}

/// Redis tells −1 for a key that never expires.
fn millis(left: i64) -> Option<Duration> {
    u64::try_from(left).ok().map(Duration::from_millis)
}

fn server_time(micros: Value) -> Result<ServerTime, BackendError> {
    let micros: u64 = read(micros, "the server's time")?;
    Ok(ServerTime(Duration::from_micros(micros)))
}
