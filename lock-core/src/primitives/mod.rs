//! Primitives built on a lock, once for all backends: one file each.
//!
//! A primitive holds locks through a [`LockClient`](crate::LockClient), as an application does, and adds a method
//! to it.

mod election;
mod looks;
mod multi_guard;
mod observer;
mod once;
mod pages;
mod several;
mod watch;

pub use self::election::{Election, Leadership};
pub use self::multi_guard::MultiGuard;
pub use self::observer::{Leader, Observer};
pub use self::once::{Once, OnceOutcome};
pub use self::several::MultiRequest;
pub use self::watch::{ListWatch, LockWatch};
