//! Locks as rows of a lease table.

mod answers;
mod backend;
mod listener;
mod presence;

pub use self::backend::PostgresBackend;
pub(crate) use self::presence::SESSION_GRACE;
