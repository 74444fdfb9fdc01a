//! Reads what the functions of the table mode answer.

use lock_core::backend::{Attempt, Claim, Grant, Recording, ServerTime, TokenRange};
use lock_core::{BackendError, Contention, FencingToken, Label, LockName, LockState};
use sqlx::postgres::PgRow;

use crate::error::unreadable;
use crate::reply::{fencing_token, get, holder, micros};

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

/// What the answer to a reservation is called in errors.
pub(crate) const RESERVATION: &str = "the answer to a reservation";

/// Reads the answer to a reservation: the first token, and how many there are.
pub(crate) fn reserved(row: &PgRow) -> Result<Option<TokenRange>, BackendError> {
    let count: i64 = get(row, 1, RESERVATION)?;
    let Some(count) = u32::try_from(count).ok().filter(|count| *count > 0) else { return Ok(None) };
    let first = fencing_token(get(row, 0, RESERVATION)?)?;
    TokenRange::new(first, count).map(Some).map_err(|_| unreadable(RESERVATION))
}

/// What an answer about a run is called in errors.
pub(crate) const RECORD: &str = "the record of a run";

/// Reads the answer to a record: whether it was made.
pub(crate) fn recording(row: &PgRow) -> Result<Recording, BackendError> {
    Ok(if get(row, 0, RECORD)? { Recording::Recorded } else { Recording::Lost })
}

/// Reads the token of a run that is recorded.
pub(crate) fn recorded(row: &PgRow) -> Result<Option<FencingToken>, BackendError> {
    get::<Option<i64>>(row, 0, RECORD)?.map(fencing_token).transpose()
}

/// Reads what a listing says of a lock: name, owner, token, time left, label, since when,
/// waiters.
pub(crate) fn state(row: &PgRow) -> Result<LockState, BackendError> {
    const WHAT: &str = "the state of a lock";
    let name: String = get(row, 0, WHAT)?;
    let name = LockName::new(name).map_err(|_| unreadable(WHAT))?;
    let waiters: i64 = get(row, 6, WHAT)?;
    Ok(LockState::new(name, holder(row)?, u64::try_from(waiters).ok()))
}
