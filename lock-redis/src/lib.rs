//! Leasehold's locks on Redis: one round trip to take, one to give back, a fencing token with each
//! grant, and waiters served first come, first served by push.
//!
//! ```no_run
//! # async fn example() -> Result<(), lock_core::LockError> {
//! use lock_core::LockClient;
//! use lock_redis::RedisLock;
//!
//! let locks = LockClient::new(RedisLock::connect("redis://127.0.0.1/").await?);
//! let guard = locks.acquire("stock:42").await?;
//! # Ok(()) }
//! ```
//!
//! # Protocol
//! A lock is a plain string key, taken as `SET key owner:token:label NX PX ttl` would take it: any
//! client in any language that takes the same key with `SET … NX PX`, and releases it by compare
//! and delete, excludes us and is excluded. Every operation is one Lua script, so that checking the
//! owner and acting on it are one step.
//!
//! - **Token**: one more than the last, or the server's time in µs, whichever is greater. It grows
//!   through a clock that steps back, and through a loss of the counter (`FLUSHALL`, a failover
//!   that lost the last writes) unless the clock is then also behind the last token.
//! - **Queue**: a waiter takes a place by order of arrival. The release script grants the lock to
//!   the first waiter that is alive and publishes the grant on that client's channel, so a hand-off
//!   is one script and one message. A pushed grant lasts 3 s until its holder renews it, so that a
//!   waiter that died in silence costs the others no more.
//! - **Foreign holders** release without a word: waiters look for themselves at least once a second.
//!
//! # What Redis does not promise
//! Expiry goes by the server's wall clock: a step forward ends leases early, a step back keeps them
//! longer. A server without persistence that restarts, an asynchronous failover, or an eviction
//! policy that may evict keys with a TTL (`volatile-*`, `allkeys-*`) can lose a lock that is held,
//! and a second holder can then be granted it. The first learns of it at its next renewal, and its
//! token is the smaller one: check tokens at the resource ([`RedisFence`]).
//!
//! # Listing
//! Locks are found by their token counters, which outlast a hold by a week. Locks that foreign clients
//! hold are therefore listed only if we held them too, and one that was held for more than a week
//! without being granted anew is not.
//!
//! Redis 6.2 or newer. Scripts use `EVALSHA`, `PUBLISH` and `TIME`; an ACL user needs these, the
//! commands in the scripts, the channels `leasehold-*`, and `INFO` for the doctor.

mod admin;
mod claims;
mod connect;
mod connection;
mod doctor;
mod error;
mod fence;
mod keys;
mod lock;
mod options;
mod push;
mod reply;
mod scripts;
mod server;

pub use crate::fence::{FencedScript, RedisFence};
pub use crate::lock::RedisLock;
pub use crate::options::RedisOptions;
