#![doc = include_str!("../README.md")]

mod connect;
mod connector;
#[cfg(doctest)]
mod docs;

pub use lock_core::{
    BackendError, Capabilities, ClientOptions, Clock, Contention, DistributedLock, Drift,
    FakeClock, Fence, FenceError, FencingToken, Finding, Health, Holder, InvalidLabel,
    InvalidLease, InvalidName, InvalidToken, InvalidTtl, Label, Lease, LeaseExt, LockAdmin,
    LockClient, LockError, LockGuard, LockName, LockRequest, LockState, LostReason, LostSignal,
    MemoryBackend, MemoryFence, Moment, Order, Outcome, OwnerId, Release, Renewals, SystemClock,
    TokenDurability, Ttl, Wait, Wakeup,
};

pub use crate::connect::{backend, connect, connect_with};
pub use crate::connector::Connector;

/// A backend that fails when a test says so, for tests of what your code does then: [`Faulty`] around a
/// [`MemoryBackend`].
///
/// [`Faulty`]: testing::Faulty
#[cfg(feature = "testing")]
pub mod testing {
    pub use lock_testkit::{Fault, Faulty, Operation};
}

/// The former name of [`MemoryBackend`].
#[deprecated(note = "it is called `MemoryBackend` now")]
pub type MemoryLock = MemoryBackend;

/// What authors of backends need beside [`DistributedLock`].
#[doc(inline)]
pub use lock_core as core;

/// Locks and fences in an etcd cluster.
#[cfg(feature = "etcd")]
#[doc(inline)]
pub use lock_etcd as etcd;

/// Locks and fences in a directory, for the processes of one machine.
#[doc(inline)]
pub use lock_file as file;

/// Locks and fences on Postgres.
#[cfg(feature = "postgres")]
#[doc(inline)]
pub use lock_postgres as postgres;

/// Locks and fences on Redis.
#[cfg(feature = "redis")]
#[doc(inline)]
pub use lock_redis as redis;
