//! Leasehold's locks on Redis: one round trip to take, one to give back, a fencing token with each
//! grant, and waiters served first come, first served by push.
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
//! This is the reference implementation: `SET … NX PX` and Lua. A lock is a plain string key, which
//! `SET key owner:token:since:label NX PX ttl` takes. Any client in any language that takes the same key
//! with `SET … NX PX`, and releases it by compare and delete, excludes us, and we exclude it. Every
//! operation is one Lua script, so that checking the owner and acting on it are one step.
//!
//! - **Token**: the server's time in µs, or one more than the last token where that is more. So the token grows when the
//!   clock steps back. It also grows when the counter is lost (`FLUSHALL`), and when a replica takes over that had not
//!   heard of the last tokens, unless the clock is then behind them.
//! - **Queue**: waiters queue in the order in which they come. The release script grants the lock to the
//!   first waiter that is alive, and publishes the grant on that client's channel. So a hand-off is one
//!   script and one message. A pushed grant lasts 3 s until its holder renews it, so that a waiter that
//!   died in silence costs the others no more.
//! - **Holds beside each other**, shared ones and permits, have a line each in the value of the same key, below
//!   the mark of their kind: `*`, or `*5` for permits of 5. So the key stands while anybody holds, and keeps
//!   foreign clients and exclusive requests out. Each line has its own expiry by the server's time; who comes
//!   or goes drops those that are over. A release lets in all at the head of the queue that fit together. An
//!   exclusive hold runs the same commands as if there were no other kinds.
//! - **Many tasks at once**: free locks that are asked for at the same time are taken by one call, and locks that
//!   nobody waits for are given back by one. Each has an answer of its own, and what is any other case goes alone.
//! - **Foreign holders** release without a message: waiters look at the server at least once a second.
//! - **Those who watch** a lock are told of its changes by keyspace events, if the server has them on
//!   (`notify-keyspace-events K$gxz`). Otherwise they look once a second.
//! - **Withdrawal**: a claim whose caller left is withdrawn by one request. It leaves a mark for 30 s if a
//!   request of the claim may still come, over a connection that was given up. The mark refuses it.
//!
//! # What Redis does not promise
//! Expiry goes by the server's wall clock: a step forward ends leases early, and a step back keeps them
//! longer. A lock that is held can be lost by a restart of a server without persistence, by an
//! asynchronous failover, and by an eviction policy that may evict keys with a TTL (`volatile-*`,
//! `allkeys-*`). The server can then grant it to a second holder. The first holder learns of this at its
//! next renewal, and its token is the smaller one: check tokens at the resource ([`RedisFence`]).
//!
//! # Cluster and Sentinel
//! All keys of a lock are in one slot. A client of a cluster has a connection to each primary, asks there, and follows
//! `MOVED` and `ASK`. The holds of one primary are renewed a hundred at a time, whatever their slots are. A client of
//! sentinels asks all of them for the primary, each second, and the newest answer rules. A request that
//! fails because servers change is an error that is asked again.
//!
//! # Listing
//! Locks are found by their token counters, which outlast the last grant by a week, and the last hold by six days. So a
//! lock that a foreign client holds is listed only if it was ours within that time.
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

pub use crate::operations::backend::RedisBackend;
pub use crate::operations::fence::{FencedScript, RedisFence};
#[cfg(feature = "quorum")]
pub use crate::quorum::{QuorumBackend, QuorumFence};
pub use crate::topology::options::RedisOptions;
