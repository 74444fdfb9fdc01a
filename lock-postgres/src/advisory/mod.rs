//! The mode in which locks are advisory locks of sessions.

mod attempt;
mod backend;
mod holds;
mod registry;
mod rows;
mod session;
mod session_task;

pub use self::backend::AdvisoryBackend;
