//! Reads what the functions answer.

use std::time::Duration;

use lock_core::backend::{Attempt, Claim, Grant, ServerTime};
use lock_core::{BackendError, Contention, FencingToken, Holder, Label, LockName, LockState};
use sqlx::postgres::{PgRow, Postgres};
use sqlx::{Decode, Row, Type};

use crate::error::unreadable;

/// The only row of an answer.
pub(crate) fn only(rows: Vec<PgRow>, what: &'static str) -> Result<PgRow, BackendError> {
    rows.into_iter().next().ok_or_else(|| unreadable(what))
}

/// A column of a row.
pub(crate) fn get<'r, T: Decode<'r, Postgres> + Type<Postgres>>(
    row: &'r PgRow,
    column: usize,
    what: &'static str,
) -> Result<T, BackendError> {
    row.try_get(column).map_err(|_| unreadable(what))
}

/// Reads the answer to an acquire: token, now, time left, holder, waiters ahead.
pub(crate) fn attempt(claim: &Claim, row: &PgRow) -> Result<Attempt, BackendError> {
    const WHAT: &str = "the answer to an acquire";
    let at = ServerTime(micros(get(row, 1, WHAT)?));
    if let Some(token) = get::<Option<i64>>(row, 0, WHAT)? {
        let grant = Grant::new(fencing_token(token)?, claim.ttl.as_duration());
        return Ok(Attempt::Granted(grant.at(at)));
    }
    let mut contention = Contention::unknown();
    contention.ttl_left = get::<Option<i64>>(row, 2, WHAT)?.map(micros);
    contention.holder =
        get::<Option<String>>(row, 3, WHAT)?.and_then(|label| Label::new(label).ok());
    contention.position =
        get::<Option<i64>>(row, 4, WHAT)?.and_then(|ahead| u64::try_from(ahead).ok());
    contention.at = Some(at);
    Ok(Attempt::Busy(contention))
}

/// Reads what a listing says of a lock: name, owner, token, time left, label, waiters.
pub(crate) fn state(row: &PgRow) -> Result<LockState, BackendError> {
    const WHAT: &str = "the state of a lock";
    let name: String = get(row, 0, WHAT)?;
    let name = LockName::new(name).map_err(|_| unreadable(WHAT))?;
    let waiters: i64 = get(row, 5, WHAT)?;
    Ok(LockState::new(name, holder(row)?, u64::try_from(waiters).ok()))
}

/// Reads whose lock it is.
pub(crate) fn holder(row: &PgRow) -> Result<Option<Holder>, BackendError> {
    const WHAT: &str = "the holder of a lock";
    let Some(owner) = get::<Option<String>>(row, 1, WHAT)? else { return Ok(None) };
    let left: Option<i64> = get(row, 3, WHAT)?;
    let mut holder = Holder::foreign(left.map(micros));
    holder.owner = Some(owner);
    holder.token = Some(fencing_token(get(row, 2, WHAT)?)?);
    holder.label = Label::new(get::<String>(row, 4, WHAT)?).unwrap_or_default();
    Ok(Some(holder))
}

pub(crate) fn fencing_token(token: i64) -> Result<FencingToken, BackendError> {
    let token = u64::try_from(token).ok().and_then(|token| FencingToken::from_stored(token).ok());
    token.ok_or_else(|| unreadable("a fencing token"))
}

/// A span, or a moment since 1970, that the server counts in µs; never below zero.
pub(crate) fn micros(count: i64) -> Duration {
    Duration::from_micros(u64::try_from(count).unwrap_or(0))
}
