//! The mode in which locks are rows of a lease table.

mod answers;
mod backend;
mod chain;
mod listener;
mod waiting_session;

pub use self::backend::PostgresBackend;
