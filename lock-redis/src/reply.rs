//! Reads what the scripts answer.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lock_core::backend::{
    Attempt, Claim, Grant, Release, Reservation, Reserved, ServerTime, TokenRange,
};
use lock_core::{
    BackendError, Contention, FencingToken, Holder, Label, LockName, LockState, OwnerId,
};
use redis::{FromRedisValue, Value, from_redis_value};

use crate::error::{not_a_lock, unreadable};

/// Reads a reply as `T`.
pub(crate) fn read<T: FromRedisValue>(reply: Value, what: &'static str) -> Result<T, BackendError> {
    from_redis_value(reply).map_err(|_| unreadable(what))
}

/// Reads the answer of the acquire script.
pub(crate) fn attempt(claim: &Claim, reply: Value) -> Result<Attempt, BackendError> {
    const WHAT: &str = "the answer to an acquire";
    match reply {
        Value::Array(parts) => busy(parts.try_into().map_err(|_| unreadable(WHAT))?),
        token => {
            let token: String = read(token, WHAT)?;
            let token: FencingToken = token.parse().map_err(|_| unreadable(WHAT))?;
            Ok(Attempt::Granted(Grant::new(token, claim.ttl.as_duration())))
        }
    }
}

/// Reads the answer of the release script.
pub(crate) fn release(reply: Value) -> Result<Release, BackendError> {
    const WHAT: &str = "the answer to a release";
    match read(reply, WHAT)? {
        1 => Ok(Release::Released),
        0 => Ok(Release::NotHeld),
        _ => Err(unreadable(WHAT)),
    }
}

/// Reads the answer of the reserve script.
pub(crate) fn reserved(hold: &Reservation, reply: Value) -> Result<Reserved, BackendError> {
    const WHAT: &str = "the answer to a reservation";
    let Value::Array(_) = reply else { return release(reply).map(Reserved::Ended) };
    let [first]: [String; 1] = read(reply, WHAT)?;
    let first = first.parse().map_err(|_| unreadable(WHAT))?;
    let tokens = TokenRange::new(first, hold.tokens).map_err(|_| unreadable(WHAT))?;
    Ok(Reserved::Tokens(tokens))
}

fn busy([left, holder, position, now]: [Value; 4]) -> Result<Attempt, BackendError> {
    let mut contention = Contention::unknown();
    contention.ttl_left = millis(read(left, "a TTL")?);
    // C49: a lock that one of us holds has a TTL.
    contention.foreign_without_ttl = contention.ttl_left.is_none();
    contention.holder = Label::new(read::<String>(holder, "a label")?).ok();
    contention.position = u64::try_from(read::<i64>(position, "a position")?).ok();
    contention.at = Some(server_time(now)?);
    Ok(Attempt::Busy(contention))
}

/// Reads the answer of the inspect script about the locks called `names`: for each its state, or an error
/// if its key is no lock.
pub(crate) fn states(
    names: &[LockName],
    reply: Value,
) -> Result<Vec<Result<LockState, BackendError>>, BackendError> {
    type Seen = (Option<Vec<u8>>, i64, u64, String);
    let states: Vec<Seen> = read(reply, "the state of locks")?;
    let state = |(name, (value, left, waiters, kind)): (&LockName, Seen)| {
        if !kind.is_empty() {
            return Err(not_a_lock(&kind));
        }
        let holder = value.map(|value| holder(&value, millis(left)));
        Ok(LockState::new(name.clone(), holder, Some(waiters)))
    };
    Ok(names.iter().zip(states).map(state).collect())
}

/// Reads the answer of the evict script.
pub(crate) fn ended(reply: Value) -> Result<Option<Holder>, BackendError> {
    let ended: Option<(Vec<u8>, i64)> = read(reply, "the answer to an eviction")?;
    Ok(ended.map(|(value, left)| holder(&value, millis(left))))
}

/// Reads the value of a lock key. A value that is not one of ours is a foreign client's.
fn holder(value: &[u8], ttl_left: Option<Duration>) -> Holder {
    let ours = || {
        let mut parts = str::from_utf8(value).ok()?.splitn(3, ':');
        let owner: OwnerId = parts.next()?.parse().ok()?;
        let token = parts.next()?.parse().ok()?;
        let (since, label) = since_and_label(parts.next()?);
        let holder = Holder::ours(owner, token, ttl_left?, Label::new(label).ok()?);
        Some(since.into_iter().fold(holder, Holder::since))
    };
    ours().unwrap_or_else(|| Holder::foreign(ttl_left))
}

/// The time of the grant (C45), and the label. A value of an earlier version holds the label alone.
fn since_and_label(text: &str) -> (Option<SystemTime>, &str) {
    let parts = || {
        let (millis, label) = text.split_once(':')?;
        let since = UNIX_EPOCH.checked_add(Duration::from_millis(millis.parse().ok()?))?;
        Some((Some(since), label))
    };
    parts().unwrap_or((None, text))
}

/// Redis tells −1 for a key that never expires.
fn millis(left: i64) -> Option<Duration> {
    u64::try_from(left).ok().map(Duration::from_millis)
}

fn server_time(micros: Value) -> Result<ServerTime, BackendError> {
    let micros: u64 = read(micros, "the server's time")?;
    Ok(ServerTime(Duration::from_micros(micros)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: &str = "0123456789abcdef0123456789abcdef";

    fn read(rest: &str) -> Holder {
        holder(format!("{OWNER}:7:{rest}").as_bytes(), Some(Duration::from_secs(1)))
    }

    #[test]
    fn c45_a_value_tells_when_it_was_granted() {
        let holder = read("1795251431457:a:label");
        assert_eq!(holder.since, Some(UNIX_EPOCH + Duration::from_millis(1_795_251_431_457)));
        assert_eq!(holder.label.as_str(), "a:label");
    }

    #[test]
    fn c45_a_value_of_an_earlier_version_is_one_of_ours() {
        for label in ["", "label", "a:label"] {
            let holder = read(label);
            assert_eq!((holder.since, holder.label.as_str()), (None, label));
            assert_eq!(holder.token.map(FencingToken::get), Some(7));
        }
    }

    #[test]
    fn c29_any_other_value_is_a_foreign_clients() {
        let ttl = Some(Duration::from_secs(1));
        for value in ["", "theirs", OWNER, &format!("{OWNER}:x:1:"), "0123:7:1:"] {
            assert_eq!(holder(value.as_bytes(), ttl), Holder::foreign(ttl), "{value}");
        }
    }
}
