//! Locks as rows of a lease table.

mod answers;
mod backend;
mod listener;

pub use self::backend::PostgresBackend;
