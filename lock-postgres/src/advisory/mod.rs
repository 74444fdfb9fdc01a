//! The mode in which locks are advisory locks of sessions.

mod backend;
mod claim;
mod claims;
mod command;
mod hold;
mod rows;
mod sessions;
mod silence;

pub use self::backend::AdvisoryBackend;
pub(crate) use self::silence::SESSION_GRACE;
