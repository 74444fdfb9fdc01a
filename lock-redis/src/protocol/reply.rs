//! Reads the answers of the scripts.

use std::borrow::Borrow;
use std::time::Duration;

use lock_core::backend::{
    Attempt, Claim, Extension, Grant, Recording, Release, Renewal, Reservation, Reserved,
    ServerTime, TokenRange,
};
use lock_core::{
    BackendError, Contention, FencingToken, Holder, Label, LockName, LockState, Occurrence, Slots,
    Whom,
};
use redis::{FromRedisValue, Value, from_redis_value};

use crate::protocol::error::{not_a_lock, unreadable};
use crate::protocol::holders::holders;

/// Reads a reply as `T`.
pub(crate) fn read<T: FromRedisValue>(reply: Value, what: &'static str) -> Result<T, BackendError> {
    from_redis_value(reply).map_err(|_| unreadable(what))
}

/// Reads the run of the server from its answer to `INFO`.
#[cfg(any(feature = "quorum", feature = "sentinel"))]
pub(crate) fn run_id(info: &str) -> Result<&str, BackendError> {
    info_of(info, "run_id").ok_or_else(|| unreadable("the run_id of INFO"))
}

/// Returns the value of `key` in the answer to INFO, which has lines of `key:value`.
#[cfg(any(feature = "quorum", feature = "sentinel"))]
pub(crate) fn info_of<'a>(info: &'a str, key: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))
}

/// Reads the answer of the acquire script.
pub(crate) fn attempt(claim: &Claim, reply: Value) -> Result<Attempt, BackendError> {
    const WHAT: &str = "the answer to an acquire";
    match reply {
        Value::Array(parts) => beside(claim, parts),
        token => granted(claim, read(token, WHAT)?, None),
    }
}

/// Reads an answer of several parts. Their number shows the kind of answer.
fn beside(claim: &Claim, parts: Vec<Value>) -> Result<Attempt, BackendError> {
    match <[Value; 2]>::try_from(parts) {
        Ok([token, slots]) => granted(claim, read(token, "a token")?, read(slots, "slots")?),
        Err(parts) => busy(parts).map(Attempt::Busy),
    }
}

/// Makes a grant. The answer of the common case has no slots.
fn granted(claim: &Claim, token: String, slots: Option<String>) -> Result<Attempt, BackendError> {
    let token = token.parse().map_err(|_| unreadable("a token"))?;
    let slots = slots.filter(|slots| !slots.is_empty());
    let slots = slots.map_or(Some(Slots::NONE), |slots| Slots::parse(&slots));
    let slots = slots.ok_or_else(|| unreadable("slots"))?;
    Ok(Attempt::Granted(Grant::new(token, claim.ttl.as_duration()).with_slots(slots)))
}

/// Reads the answer of a script that extends the holds of `renewals`: `None` for each hold without an answer.
pub(crate) fn extensions(
    renewals: &[impl Borrow<Renewal>],
    reply: Value,
) -> Result<Vec<Option<Extension>>, BackendError> {
    const WHAT: &str = "the answer to renewals";
    let answers: Vec<Option<u8>> = read(reply, WHAT)?;
    if answers.len() != renewals.len() {
        return Err(unreadable(WHAT));
    }
    let extension = |(ours, renewal): (Option<u8>, &Renewal)| match ours? {
        1 => Some(Extension::Extended(renewal.ttl.as_duration())),
        _ => Some(Extension::Lost),
    };
    Ok(answers.into_iter().zip(renewals.iter().map(Borrow::borrow)).map(extension).collect())
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

/// Reads the answer of the record script.
pub(crate) fn recording(reply: Value) -> Result<Recording, BackendError> {
    const WHAT: &str = "the answer to a record";
    match read(reply, WHAT)? {
        1 => Ok(Recording::Recorded),
        0 => Ok(Recording::Lost),
        _ => Err(unreadable(WHAT)),
    }
}

/// Reads the value of a run's key.
pub(crate) fn recorded(reply: Value) -> Result<Option<FencingToken>, BackendError> {
    const WHAT: &str = "the record of a run";
    let token: Option<String> = read(reply, WHAT)?;
    token.map(|token| token.parse().map_err(|_| unreadable(WHAT))).transpose()
}

/// Reads the index of a lock's runs. What no client of ours has written there is left out.
pub(crate) fn occurrences(reply: Value) -> Result<Vec<Occurrence>, BackendError> {
    let texts: Vec<Vec<u8>> = read(reply, "the runs of a lock")?;
    let texts = texts.into_iter().filter_map(|text| String::from_utf8(text).ok());
    Ok(texts.filter_map(|text| Occurrence::new(text).ok()).collect())
}

/// Reads the number of removed records.
pub(crate) fn forgotten(reply: Value) -> Result<bool, BackendError> {
    read(reply, "the number of records").map(|removed: u64| removed > 0)
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

fn busy(mut parts: Vec<Value>) -> Result<Contention, BackendError> {
    let mut contention = Contention::unknown();
    if parts.len() > 4
        && let Some(beside) = parts.pop()
    {
        // S3: a later version may count more permits than this version knows.
        let (permits, first, label): (u64, u64, String) = read(beside, "numbers of permits")?;
        contention.permits = permits.try_into().unwrap_or(0);
        let first = u16::try_from(first).ok().filter(|first| *first > 0);
        contention.first_waiter = first.zip(Label::new(label).ok()).map(Box::new);
    }
    let [left, holder, position, now] =
        <[Value; 4]>::try_from(parts).map_err(|_| unreadable("the answer to an acquire"))?;
    contention.ttl_left = millis(read(left, "a TTL")?);
    // C49: a lock that a client of locks holds has a TTL.
    contention.foreign_without_ttl = contention.ttl_left.is_none();
    let holder: Option<String> = read(holder, "a label")?;
    contention.is_foreign = holder.is_none();
    contention.holder = holder.and_then(|label| Label::new(label).ok());
    contention.position = u64::try_from(read::<i64>(position, "a position")?).ok();
    contention.at = Some(server_time(read(now, "the server's time")?));
    Ok(contention)
}

/// Value of a lock's key, ms left, number of waiters, the type of a key that is no lock, and each number of permits that the
/// waiters count.
type RawState = (Option<Vec<u8>>, i64, u64, String, Vec<u64>);

/// Reads the values of the keys from the answer of the inspect script.
#[cfg(feature = "quorum")]
pub(crate) fn values(reply: Value) -> Result<Vec<Option<Vec<u8>>>, BackendError> {
    let (_, states): (u64, Vec<Option<RawState>>) = read(reply, "the state of locks")?;
    Ok(states.into_iter().map(|state| state.and_then(|(value, ..)| value)).collect())
}

/// Reads the answer of the inspect script about the locks called `names`: the state of each, or an error if its key
/// is no lock. A lock that was left out is free.
pub(crate) fn states(
    names: &[impl Borrow<LockName>],
    reply: Value,
) -> Result<Vec<Result<LockState, BackendError>>, BackendError> {
    let (now, states): (u64, Vec<Option<RawState>>) = read(reply, "the state of locks")?;
    let state = |(name, state): (&LockName, Option<RawState>)| {
        let Some((value, left, waiters, kind, counted)) = state else {
            return Ok(LockState::new(name.clone(), None, None));
        };
        if !kind.is_empty() {
            return Err(not_a_lock(&kind));
        }
        let holders = value.map(|value| holders(&value, millis(left), server_time(now)));
        let state = LockState::new(name.clone(), holders.into_iter().flatten(), Some(waiters));
        Ok(state.counted_as(counted.into_iter().filter_map(|number| number.try_into().ok())))
    };
    if states.len() != names.len() {
        return Err(unreadable("the state of locks"));
    }
    Ok(names.iter().map(Borrow::borrow).zip(states).map(state).collect())
}

/// Reads the answer of the evict script: the former holders among `whom`.
pub(crate) fn ended(reply: Value, whom: &Whom) -> Result<Vec<Holder>, BackendError> {
    let seen: Option<(Vec<u8>, i64, u64, String)> = read(reply, "the answer to an eviction")?;
    let Some((value, left, now, last)) = seen else { return Ok(Vec::new()) };
    let (seen, last) = (holders(&value, millis(left), server_time(now)), last.parse().ok());
    let ended = seen.into_iter().filter(|holder| whom.includes(holder));
    Ok(ended.map(|holder| holder.reserved(last)).collect())
}

/// Redis returns −1 for a key that never expires.
fn millis(left: i64) -> Option<Duration> {
    u64::try_from(left).ok().map(Duration::from_millis)
}

fn server_time(micros: u64) -> ServerTime {
    ServerTime(Duration::from_micros(micros))
}

#[cfg(test)]
pub(crate) mod tests {
    use lock_core::{Lease, LockRequest, OwnerId};

    use super::*;

    /// A reply of any form. A choice tells how many of the last parts an array takes.
    pub(crate) fn value(parts: &lock_fuzz::Parts) -> Value {
        let mut values = Vec::new();
        for (choice, number) in parts {
            let value = match choice {
                0..96 => Value::Int(number.cast_signed() >> (choice % 64)),
                96..128 => Value::BulkString((number % 1000).to_string().into_bytes()),
                128..176 => Value::BulkString(lock_fuzz::any_text(*number).into_bytes()),
                176..184 => Value::Nil,
                184..192 => Value::SimpleString(lock_fuzz::any_text(*number)),
                _ => {
                    let taken = values.len().saturating_sub(usize::from(choice % 8));
                    Value::Array(values.split_off(taken))
                }
            };
            values.push(value);
        }
        values.pop().unwrap_or(Value::Nil)
    }

    /// Any reply is understood or refused by a typed error, which repeats none of it.
    #[test]
    fn fuzz_replies() {
        let claim = LockRequest::new("a").claim().expect("a claim");
        let name = claim.name.clone();
        let lease = format!("lease1:{}:7:1000:a", OwnerId::random().expose());
        let hold = Reservation::new(&Lease::import(&lease).expect("a lease"), 3, false);
        lock_fuzz::check(|parts| {
            let reply = || value(parts);
            let errors = [
                attempt(&claim, reply()).err(),
                release(reply()).err(),
                recording(reply()).err(),
                recorded(reply()).err(),
                forgotten(reply()).err(),
                reserved(&hold, reply()).err(),
                states(&[&name], reply()).err(),
                ended(reply(), &Whom::All).err(),
            ];
            for error in errors.into_iter().flatten() {
                assert!(error.to_string().len() < 200, "{error}");
            }
        });
    }
}
