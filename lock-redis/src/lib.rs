//! Leasehold's locks on Redis. Acquire and release take one round trip each, each grant has a fencing token, and
//! waiters are served first come, first served by push.
//!
//! ```no_run
//! # async fn example() -> Result<(), lock_core::LockError> {
//! use lock_core::LockClient;
//! use lock_redis::RedisBackend;
//!
//! let locks = LockClient::new(RedisBackend::connect("redis://127.0.0.1/").await?);
//! let guard = locks.acquire("stock:42").await?;
//! # Ok(()) }
//! ```
//!
//! # Protocol
//! This is the reference implementation: `SET … NX PX` and Lua. A lock is a plain string key, made by
//! `SET key owner:token:since:label NX PX ttl`. A client in any language that takes the same key with `SET … NX PX`,
//! and releases it by compare and delete, excludes us, and we exclude it. Every operation is one Lua script, so the
//! check of the owner and the change are one step.
//!
//! - **Token**: the server's time in µs, or the last token plus one if that is greater. So the token grows when the
//!   clock steps back. It also grows when the counter is lost (`FLUSHALL`), and when a replica without the last
//!   tokens takes over, unless the clock is then behind the last token.
//! - **Queue**: waiters queue in the order of their arrival. The release script grants the lock to the first live
//!   waiter, and publishes the grant on that client's channel. So a hand-off is one script and one message. A pushed
//!   grant lasts 3 s until its holder renews it, so that a waiter that died in silence costs the others no more.
//! - **Holds beside each other**, shared ones and permits, have a line each in the value of the same key, below the
//!   mark of their kind: `*`, or `*5` for permits of 5. So the key exists while anybody holds, and excludes foreign
//!   clients and exclusive requests. Each line has its own expiry on the server's clock; each acquire and release
//!   removes expired lines. A release grants to all at the head of the queue that fit together. An exclusive hold
//!   runs the same commands as if there were no other kinds.
//! - **Many tasks at once**: one call acquires free locks that are asked for at the same time, and one call releases
//!   locks without waiters. Each request has its own answer. Requests in any other case go alone.
//! - **Foreign holders** release without a message: waiters look at the server at least once a second.
//! - **Observers** of a lock learn of its changes by keyspace events, if these are on
//!   (`notify-keyspace-events K$gxz`). Otherwise they poll once a second.
//! - **Withdrawal**: one request withdraws the claim of a caller that left. If a request of the claim may still
//!   arrive, over a connection that was given up, a mark stays for 30 s. The mark refuses that request.
//!
//! # Limits of Redis
//! Expiry depends on the server's wall clock: a step forward ends leases early, and a step back makes them longer. A
//! held lock can be lost by a restart of a server without persistence, by an asynchronous failover, and by an
//! eviction policy that may evict keys with a TTL (`volatile-*`, `allkeys-*`). The server can then grant it to a
//! second holder. The first holder learns of this at its next renewal, and its token is the smaller one: check tokens
//! at the resource ([`RedisFence`]).
//!
//! # Cluster and Sentinel
//! All keys of a lock are in one slot. A client of a cluster has a connection to each primary, sends each request to
//! the primary of its slot, and follows `MOVED` and `ASK`. The holds of one primary are renewed a hundred at a time,
//! whatever their slots are. A client of sentinels asks all of them for the primary each second, and uses the newest
//! answer. A request that fails because servers change is repeated.
//!
//! # Listing
//! Locks are found by their keys. A key counts as a lock if it has a token counter, which outlasts the last grant by a
//! week, and the last hold by six days. So a listing shows a foreign client's lock only if we held it within that time.
//!
//! Redis 6.2 or newer. Scripts use `EVALSHA`, `PUBLISH` and `TIME`; an ACL user needs these, the
//! commands in the scripts, the channels `leasehold-*`, and `INFO` for the doctor.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod operations;
mod protocol;
#[cfg(feature = "quorum")]
mod quorum;
mod scripts;
mod topology;
mod wire;

// The version whose clients and pipelines this crate accepts.
#[doc(no_inline)]
pub use redis;

pub use crate::operations::backend::RedisBackend;
pub use crate::operations::fence::{FencedCall, FencedScript, RedisFence};
#[cfg(feature = "quorum")]
pub use crate::quorum::{QuorumBackend, QuorumFence};
pub use crate::topology::options::RedisOptions;
