//! Conditions on the rows that tell of advisory locks, as SQL. A row is called `l`.

use lock_core::{FencingToken, LockName, OwnerId};

use crate::sql::{owner_literal, text_literal};

/// The hold of the row is not over by the clock.
pub(super) const NOT_OVER: &str = "l.expires_at > clock_timestamp()";

/// It is the row of this lock.
pub(super) fn named(name: &LockName) -> String {
    format!("l.name = {}", text_literal(name.as_str()))
}

/// The row says that the lock is this owner's.
pub(super) fn owned(name: &LockName, owner: OwnerId) -> String {
    format!("{} AND l.owner = {}", named(name), owner_literal(owner))
}

/// The row tells of this hold. The owner alone does not tell: it may be granted the lock anew.
pub(super) fn held(name: &LockName, owner: OwnerId, token: FencingToken) -> String {
    format!("{} AND l.token = {token}", owned(name, owner))
}
