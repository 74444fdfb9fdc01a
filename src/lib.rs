//! Distributed locks with fencing tokens: one trait over Redis, etcd, ZooKeeper, Postgres, files and memory, a guard that
//! renews itself and *tells* when it is lost, and a fence for the resource that makes stale writers harmless.
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
//! - [`LockClient`] is what an application makes once: [`with`](LockClient::with), [`acquire`](LockClient::acquire),
//!   [`try_acquire`](LockClient::try_acquire). [`LockRequest`] says how long to wait and for
//!   which TTL, [`ClientOptions`] the defaults.
//! - [`acquire_all`](LockClient::acquire_all) holds several locks at once, all or none, and a [`Reentrance`] lets a
//!   holder ask again: see `docs/primitives.md`.
//! - [`LockGuard`] is a lock that is held; [`FencingToken`] is what its writes carry.
//! - [`Fence`] stands with the resource, and refuses what is stale. Advance, then read, then write.
//! - [`LockError`] has a table: what to do about each error, and which HTTP status it becomes.
//! - [`admin`] is for operators: who holds what, evictions, the doctor.
//! - [`core::backend`] is for authors of backends.
//!
//! The package has pages beside this reference: `docs/first_hour.md` leads to a service that is right,
//! `docs/guarantees.md` says what each backend promises under which failure, `docs/operating.md` how to choose
//! a TTL and what bounds each call, `docs/observability.md` what to alert on; and `docs/contract.md` has every
//! clause, such as C5.
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
//! | `zookeeper` | `zookeeper://` |
//! | `metrics` | counters and histograms by the `metrics` facade |
//! | `serde` | `Serialize` and `Deserialize` for names, tokens and what inspection shows |
//! | `full` | all of these, with rustls |
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "blocking")]
pub mod blocking;
mod connect;
mod connector;
#[cfg(doctest)]
mod docs;

pub use lock_core::{
    BackendError, Capabilities, ClientOptions, Contention, Drift, Election, Fence, FenceError,
    FencingToken, Finished, InputKind, InvalidInput, Kind, Leader, Leadership, Lease, LockClient,
    LockError, LockGuard, LockName, LockRequest, LostReason, LostSignal, MemoryBackend,
    MemoryFence, Moment, MultiGuard, MultiRequest, Observer, Occurrence, Once, OnceOutcome,
    Outcome, Permits, Reentrance, Ttl, Wait,
};
// Not shown here a second time: there the methods of its implementation for `Arc` have dead links.
#[doc(no_inline)]
pub use lock_core::DistributedLock;

pub use crate::connect::{backend, connect, connect_with};
pub use crate::connector::Connector;

/// For tests of what your code does when things fail: [`Faulty`] around a [`MemoryBackend`] fails when the test
/// says so, and a [`FakeClock`] moves when it says so.
///
/// [`FakeClock`]: testing::FakeClock
/// [`Faulty`]: testing::Faulty
#[cfg(feature = "testing")]
pub mod testing {
    pub use lock_core::testing::FakeClock;
    pub use lock_testkit::{Fault, Faulty, Operation};
}

/// Views and deeds of operators, from [`LockClient::admin`] on: states of locks, streams of them, and findings of
/// the doctor.
pub mod admin {
    #[doc(inline)]
    pub use lock_core::{
        Admin, Finding, Health, Holder, ListWatch, LockState, LockWatch, RecordedRun,
    };
}

// Each is a module of ours, because the docs of a crate that is re-exported as a whole have a dead link.

/// The crate `lock_core`: what authors of backends need beside [`DistributedLock`], in [`core::backend`], and the types
/// that an application seldom names.
pub mod core {
    #[doc(no_inline)]
    pub use lock_core::*;
}

/// Locks in a ZooKeeper ensemble: the crate `lock_zookeeper`, which tells the protocol.
#[cfg(feature = "zookeeper")]
pub mod zookeeper {
    #[doc(inline)]
    pub use lock_zookeeper::{ZooKeeperBackend, ZooKeeperOptions};
}

/// Locks and fences in an etcd cluster: the crate `lock_etcd`, which tells the protocol.
#[cfg(feature = "etcd")]
pub mod etcd {
    #[doc(hidden)]
    pub use lock_etcd::etcd_client;
    #[doc(inline)]
    pub use lock_etcd::{EtcdBackend, EtcdFence, EtcdOptions, FenceComparison};
}

/// Locks and fences in a directory, for the processes of one machine: the crate `lock_file`, which tells
/// how a record survives a crash.
pub mod file {
    #[doc(inline)]
    pub use lock_file::*;
}

/// Locks and fences on Postgres: the crate `lock_postgres`, which tells the protocol.
#[cfg(feature = "postgres")]
pub mod postgres {
    #[doc(inline)]
    pub use lock_postgres::*;
}

/// Locks and fences on Redis: the crate `lock_redis`, which tells the protocol.
#[cfg(feature = "redis")]
pub mod redis {
    #[doc(inline)]
    pub use lock_redis::*;
}
