//! Reads what the server answers.

use std::time::{Duration, UNIX_EPOCH};

use lock_core::{BackendError, FencingToken, Holder, Label};
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

/// Reads whose lock it is, from the first columns of a row: name, owner, token, time left, label, and
/// since when, as [`granted_at`](crate::sql::granted_at) has it.
pub(crate) fn holder(row: &PgRow) -> Result<Option<Holder>, BackendError> {
    const WHAT: &str = "the holder of a lock";
    let Some(owner) = get::<Option<String>>(row, 1, WHAT)? else { return Ok(None) };
    let left: Option<i64> = get(row, 3, WHAT)?;
    let mut holder = Holder::foreign(left.map(micros));
    holder.owner = Some(owner);
    holder.token = Some(fencing_token(get(row, 2, WHAT)?)?);
    holder.label = Label::new(get::<String>(row, 4, WHAT)?).unwrap_or_default();
    let since = get::<Option<i64>>(row, 5, WHAT)?;
    // C45: the server's time of the grant.
    holder.since = since.map(|since| UNIX_EPOCH + micros(since));
    Ok(Some(holder))
}

pub(crate) fn fencing_token(token: i64) -> Result<FencingToken, BackendError> {
    let token = u64::try_from(token).ok().and_then(|token| FencingToken::new(token).ok());
    token.ok_or_else(|| unreadable("a fencing token"))
}

/// A span, or a moment since 1970, that the server counts in µs; never below zero.
pub(crate) fn micros(count: i64) -> Duration {
    Duration::from_micros(u64::try_from(count).unwrap_or(0))
}
