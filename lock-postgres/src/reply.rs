//! Reads the server's answers.

use std::time::Duration;

use lock_core::{BackendError, FencingToken};
use sqlx::postgres::{PgRow, Postgres};
use sqlx::{Decode, Row, Type};

use crate::error::unreadable;

/// Returns the only row of an answer.
pub(crate) fn only(rows: Vec<PgRow>, what: &'static str) -> Result<PgRow, BackendError> {
    rows.into_iter().next().ok_or_else(|| unreadable(what))
}

/// Returns a column of a row.
pub(crate) fn get<'r, T: Decode<'r, Postgres> + Type<Postgres>>(
    row: &'r PgRow,
    column: usize,
    what: &'static str,
) -> Result<T, BackendError> {
    row.try_get(column).map_err(|_| unreadable(what))
}

pub(crate) fn fencing_token(token: i64) -> Result<FencingToken, BackendError> {
    let token = u64::try_from(token).ok().and_then(|token| FencingToken::new(token).ok());
    token.ok_or_else(|| unreadable("a fencing token"))
}

/// Converts a span in µs, or a time in µs since 1970; a negative count is zero.
pub(crate) fn micros(count: i64) -> Duration {
    Duration::from_micros(u64::try_from(count).unwrap_or(0))
}
