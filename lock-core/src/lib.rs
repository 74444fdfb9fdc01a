//! The contract of Leasehold's distributed locks, and everything that is written once for all
//! backends.
//!
//! Applications use the facade `leasehold`; authors of backends implement [`DistributedLock`] and
//! hold their work against the conformance suite (feature `conformance`).
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
//! use lock_core::{LockClient, MemoryLock};
//!
//! let locks = LockClient::new(MemoryLock::new());
//! let guard = locks.acquire("stock:42").await?;
//! guard.run(async { println!("selling under token {}", guard.token()) }).await?;
//! guard.release().await?;
//! # Ok(()) }
//! ```
//!
//! # What is promised
//! A lock with a lease is exclusive **in token order**: a resource that checks tokens accepts the
//! writes of one holder at a time, in the order in which the lock was granted, whatever pauses,
//! partitions and clocks do. It is exclusive **in time** only while clocks run at about the same
//! rate and the store loses nothing. Where that is not enough, check the token at the resource: see
//! [`Fence`].
//!
//! # Who does what
//! - [`LockClient`] is what an application holds; it makes [`LockGuard`]s, renews them in batches,
//!   and gives back what was dropped.
//! - [`DistributedLock`] is what a backend implements: each method asks the server once.
//! - [`Lease`] is the proof of a hold, as plain data.
//! - [`MemoryLock`] is the executable specification: the same contract within one process.

mod acquisition;
mod capabilities;
mod client;
mod clock;
#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
mod fence;
mod finding;
mod guard;
mod hold;
mod janitor;
mod keeper;
mod lease;
mod local_queue;
mod lock;
mod memory;
#[cfg(feature = "metrics")]
mod meter;
mod name;
mod owner;
mod push;
mod request;
mod retry;
mod silence;
mod telemetry;
mod token;
mod ttl;
mod wait;
mod waker;

pub use async_trait::async_trait;

pub use crate::capabilities::{Capabilities, Order, TokenDurability, Wakeup};
pub use crate::client::{ClientOptions, LockClient};
pub use crate::clock::{Clock, FakeClock, Moment, SystemClock};
pub use crate::error::{BackendError, BoxError, LockError, Outcome};
pub use crate::fence::{Fence, FenceError, MemoryFence};
pub use crate::finding::{Finding, Health};
pub use crate::guard::LockGuard;
pub use crate::hold::{LostReason, LostSignal};
pub use crate::lease::Lease;
pub use crate::lock::{
    Attempt, Claim, Contention, DistributedLock, Extension, Grant, Holder, LockState, LossWatch,
    Release, Renewal, ServerTime,
};
pub use crate::memory::MemoryLock;
pub use crate::name::{Label, LockName, MAX_LABEL_BYTES, MAX_NAME_BYTES};
pub use crate::owner::OwnerId;
pub use crate::push::{Push, PushServer};
pub use crate::request::{LockRequest, Wait};
pub use crate::silence::{Awaited, Replies};
pub use crate::token::FencingToken;
pub use crate::ttl::{Drift, Ttl};
pub use crate::waker::Waker;
