//! Distributed locks with fencing tokens: one trait over Redis, etcd, ZooKeeper, Postgres, files and memory; a
//! guard that renews itself and *tells* its holder when the lock is lost; and a fence at the resource that makes
//! stale writers harmless.
//!
//! ```
//! # async fn sell_one(_: leasehold::FencingToken) {}
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), leasehold::LockError> {
//! let locks = leasehold::connect("memory:").await?; // or redis://…, etcd://…, postgres://…, file:…
//! let sale = locks.with("stock:42", async |held| {
//!     sell_one(held.token()).await // dropped if the lock is lost
//! }).await?;
//! if let Err(lost) = sale.hold {
//!     println!("done, but not under the lock to the end: {lost}");
//! }
//! # Ok(()) }
//! ```
//!
//! # Where things are
//! - [`connect()`] and [`connect_with`] choose the backend by URL; [`Connector`] takes further schemes.
//! - [`LockClient`]: an application makes one, and calls [`with`](LockClient::with),
//!   [`acquire`](LockClient::acquire) or [`try_acquire`](LockClient::try_acquire). [`LockRequest`] sets the wait
//!   and the TTL, [`ClientOptions`] the defaults.
//! - [`acquire_all`](LockClient::acquire_all) holds several locks at once, all or none. A [`Reentrance`] lets a
//!   holder acquire the same lock again: see `docs/primitives.md`.
//! - [`LockGuard`] is a held lock; its writes carry the [`FencingToken`].
//! - [`Fence`] guards the resource, and refuses stale tokens. Advance, then read, then write.
//! - [`LockError`] has a table of the errors: the right reaction to each, and its HTTP status.
//! - [`admin`] is for operators: holders, evictions, the doctor.
//! - [`core::backend`] is for authors of backends.
//!
//! The package has pages beside this reference. `docs/first_hour.md` leads to a correct service.
//! `docs/guarantees.md` lists the promises of each backend under each failure. `docs/operating.md` explains how
//! to choose a TTL, and the time limits of each call. `docs/observability.md` lists the alerts.
//! `docs/contract.md` has all clauses, such as C5.
//!
//! # Features
//! | feature | what it adds |
//! | --- | --- |
//! | none | memory and files |
//! | `blocking` | `leasehold::blocking`: a client for threads without async |
//! | `redis` | `redis://`, `redis+unix:`; TLS by `redis-rustls` or `redis-native-tls` |
//! | `redis-cluster` | `redis-cluster://`: a Redis Cluster |
//! | `redis-quorum` | `redis-quorum://`: a majority of three or five independent Redis servers |
//! | `redis-sentinel` | `redis-sentinel://`: the primary that Redis Sentinel names |
//! | `etcd` | `etcd://`; TLS by `etcd-tls`. Needs `protoc` and its well-known types to build |
//! | `postgres` | `postgres://`; TLS by `postgres-rustls` or `postgres-native-tls` |
//! | `zookeeper` | `zookeeper://`; TLS by `zookeeper-tls` |
//! | `metrics` | counters and histograms by the `metrics` facade |
//! | `serde` | `Serialize` and `Deserialize` for names, tokens and what inspection shows |
//! | `full` | all of these, with rustls |
//! | `testing` | `leasehold::testing`: a backend that fails on command, for dev-dependencies |
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "blocking")]
pub mod blocking;
mod connect;
mod connector;

pub use lock_core::{
    BackendError, BoxError, Capabilities, Certificates, ClientOptions, Contention,
    CredentialProvider, Credentials, Drift, Election, Fence, FenceError, FencingToken, Finished,
    InputKind, InvalidInput, Kind, Leader, Leadership, Lease, LockClient, LockError, LockGuard,
    LockName, LockRequest, LostReason, LostSignal, MemoryBackend, MemoryFence, Moment, MultiGuard,
    MultiRequest, Observer, Occurrence, Once, OnceOutcome, Outcome, Pem, Permits, Reentrance, Ttl,
    Wait,
};
// Not inlined: the methods of the implementation for `Arc` would have dead links here.
#[doc(no_inline)]
pub use lock_core::DistributedLock;

pub use crate::connect::{backend, connect, connect_with};
pub use crate::connector::Connector;

/// For tests of an application's failures: a [`Faulty`] around a [`MemoryBackend`] fails on command, and a
/// [`FakeClock`] moves on command.
///
/// [`FakeClock`]: testing::FakeClock
/// [`Faulty`]: testing::Faulty
#[cfg(feature = "testing")]
pub mod testing {
    pub use lock_core::testing::FakeClock;
    pub use lock_testkit::{Fault, Faulty, Operation};
}

/// Views and commands for operators, from [`LockClient::admin`]: states of locks, streams of them, and findings
/// of the doctor.
pub mod admin {
    #[doc(inline)]
    pub use lock_core::{
        Admin, Finding, Health, Holder, ListWatch, LockState, LockWatch, RecordedRun,
    };
}

// Each is a module of this crate, because the docs of a crate that is re-exported as a whole have a dead link.

/// The crate `lock_core`: [`core::backend`], which authors of backends need beside [`DistributedLock`], and the
/// types that an application seldom names.
pub mod core {
    #[doc(no_inline)]
    pub use lock_core::*;
}

/// Locks in a ZooKeeper ensemble: the crate `lock_zookeeper`, which documents the protocol.
#[cfg(feature = "zookeeper")]
pub mod zookeeper {
    #[doc(inline)]
    pub use lock_zookeeper::{ZooKeeperBackend, ZooKeeperOptions};
}

/// Locks and fences in an etcd cluster: the crate `lock_etcd`, which documents the protocol.
#[cfg(feature = "etcd")]
pub mod etcd {
    #[doc(hidden)]
    pub use lock_etcd::etcd_client;
    #[doc(inline)]
    pub use lock_etcd::{EtcdBackend, EtcdFence, EtcdOptions, FenceComparison};
}

/// Locks and fences in a directory, for the processes of one machine: the crate `lock_file`, which documents how
/// a record survives a crash.
pub mod file {
    #[doc(inline)]
    pub use lock_file::*;
}

/// Locks and fences on Postgres: the crate `lock_postgres`, which documents the protocol.
#[cfg(feature = "postgres")]
pub mod postgres {
    #[doc(inline)]
    pub use lock_postgres::*;
}

/// Locks and fences on Redis: the crate `lock_redis`, which documents the protocol.
#[cfg(feature = "redis")]
pub mod redis {
    #[doc(inline)]
    pub use lock_redis::*;
}
