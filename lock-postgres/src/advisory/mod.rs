//! The mode in which locks are advisory locks of sessions.

mod backend;
mod claim_handle;
mod claim_task;
mod hold;
mod holds;
mod registry;
mod shared;
mod spares;

pub use self::backend::AdvisoryBackend;
