//! The mode in which locks are advisory locks of sessions.

mod attempt;
mod holds;
mod lock;
mod registry;
mod rows;
mod session;
mod session_task;

pub use self::lock::AdvisoryLock;
