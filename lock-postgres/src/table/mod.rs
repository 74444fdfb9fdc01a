//! The mode in which locks are rows of a lease table.

mod answers;
mod backend;
mod hearing;
mod listener;
mod push;
mod waits;

pub use self::backend::PostgresBackend;
