//! Locks as rows of a lease table.

mod answers;
mod backend;
mod hearing;
mod listener;
mod presence;
mod push;
mod waits;

pub use self::backend::PostgresBackend;
pub(crate) use self::presence::SESSION_GRACE;
