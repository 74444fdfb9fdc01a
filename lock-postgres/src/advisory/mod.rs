//! The mode in which locks are advisory locks of sessions.

mod backend;
mod claim_handle;
mod claim_task;
mod holds;
mod registry;
mod spares;

pub use self::backend::AdvisoryBackend;
