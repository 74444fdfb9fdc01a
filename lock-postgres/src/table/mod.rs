//! The mode in which locks are rows of a lease table.

mod answers;
mod listener;
mod lock;

pub use self::lock::PostgresLock;
