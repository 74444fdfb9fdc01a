//! The contract of Leasehold's distributed locks, and everything that all backends share.
//!
//! Applications use the facade `leasehold`. Authors of backends implement [`DistributedLock`] with the help of
//! [`backend`], and test it with the conformance suite of `lock-testkit`.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
//! use lock_core::{LockClient, MemoryBackend};
//!
//! let locks = LockClient::new(MemoryBackend::new());
//! let guard = locks.acquire("stock:42").await?;
//! guard.run(async { println!("selling under token {}", guard.token()) }).await?;
//! guard.release().await?;
//! # Ok(()) }
//! ```
//!
//! # Guarantees
//! A lock with a lease is exclusive **in token order**: a resource that checks tokens accepts the writes of one
//! holder at a time, in the order of the grants. This holds for all pauses, partitions and clocks. A lock is
//! exclusive **in time** only while clocks run at about the same rate and the store loses nothing. Where that is not
//! enough, check the token at the resource: see [`Fence`].
//!
//! The clauses of the contract have numbers, such as C5, which comments and tests cite. `docs/contract.md` of the
//! repository lists them.
//!
//! # Main types
//! - [`LockClient`] is the application's handle. It makes [`LockGuard`]s, renews them in batches, and gives back
//!   dropped ones.
//! - [`DistributedLock`] is the trait of a backend: each method asks the server once.
//! - [`Lease`] is the proof of a hold, as plain data.
//! - [`Admin`] is for operators: it shows holders, and ends holds by force. [`LockAdmin`] is the part of a backend
//!   behind it.
//! - [`MemoryBackend`] keeps the same contract within one process, and is an example for authors of backends.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod admin;
pub mod backend;
mod client;
mod engine;
mod examination;
mod fence;
mod guard;
mod memory;
mod model;
mod primitives;
mod reentrance;
mod sync;

/// Helps to test code that uses locks.
pub mod testing {
    pub use crate::model::FakeClock;
    #[doc(hidden)]
    pub use crate::model::random::seed_this_thread;
}

pub use crate::admin::Admin;
pub use crate::backend::{
    Certificates, CredentialProvider, Credentials, DistributedLock, LockAdmin, Pem, Release,
};
pub use crate::client::{Finished, LockClient};
pub use crate::engine::{ClientOptions, LostSignal};
pub use crate::fence::{Fence, MemoryFence};
pub use crate::guard::LockGuard;
pub use crate::memory::MemoryBackend;
pub use crate::model::{
    BackendError, BoxError, Capabilities, Clock, Contention, Drift, FenceError, FencingToken,
    Finding, Health, Holder, InputKind, InvalidInput, Kind, Kinds, Label, Lease, LockError,
    LockName, LockRequest, LockState, LostReason, Moment, Occurrence, Order, Outcome, OwnerId,
    Permits, Readable, RecordedRun, Reentrance, Renewals, Slots, SystemClock, TokenDurability, Ttl,
    Wait, Wakeup, Whom,
};
pub use crate::primitives::{
    Election, Leader, Leadership, ListWatch, LockWatch, MultiGuard, MultiRequest, Observer, Once,
    OnceOutcome,
};
