//! Locks on a majority of several independent Redis servers.
//!
//! ```no_run
//! # async fn example() -> Result<(), lock_core::LockError> {
//! use lock_core::LockClient;
//! use lock_redis::QuorumBackend;
//!
//! let locks = LockClient::new(QuorumBackend::connect("redis-quorum://a,b,c").await?);
//! let guard = locks.acquire("stock:42").await?;
//! # Ok(()) }
//! ```
//!
//! # Protocol
//! This is Redlock with fencing tokens. The servers do not know each other. A lock is the same plain key on each of
//! them, so that foreign clients of the same recipe exclude us, and we exclude them (C29).
//!
//! ```text
//!             vote?            ┌────────┐
//!   client ──────────────────▶ │ voter 1 │ granted ┐
//!      │  the same ballot t    ├────────┤         │  two of three: the claim holds the lock,
//!      ├─────────────────────▶ │ voter 2 │ granted ┤  and its token is t
//!      │                       ├────────┤         │
//!      └─────────────────────▶ │ voter 3 │ ─ ─ ─ ─ ┘  not waited for
//!                              └────────┘
//! ```
//!
//! - **A majority of all.** All servers are asked at once, each with its own time limit of 250 ms. More than half of
//!   all must grant, even if others cannot be reached. The deadline counts from before the first request (C5). A
//!   server counts once in each round, also where a name or a virtual address leads to it besides its own.
//! - **The token is a ballot** (C22). The client proposes a number: its own time in µs. A voter grants only growing
//!   numbers, and has a counter for each lock to check them. Two majorities share a voter. So no two grants have the
//!   same number, and a later grant has the greater one, whatever any clock says. A client whose number is too small
//!   receives the counter, and proposes the counter plus one.
//! - **A failed attempt is given back** on all servers that granted it, or may have. That raises their counters to
//!   its ballot, so that a late request of the attempt is refused. A request that a server could not receive is sent
//!   once it answers again. Until then votes of the attempt may remain: they do not count for the next attempt, which
//!   has a greater ballot.
//! - **Candidates that split the votes** pause for a random time before they propose again.
//! - **Renewals** count the servers that still have the hold; fewer than a majority is a loss. While a majority has
//!   it, the others are asked for their votes again. Such a vote passes any counter, but not the end of the hold.
//! - **An end** is a release or an eviction. Each server remembers the greatest ballot of a hold that ended there, so
//!   that a late vote does not restore the hold.
//! - **Waiters** are woken by the release: each server notifies its first waiter, and refuses new claims for 50 ms. A
//!   woken waiter asks for votes like any other client, so no order is guaranteed.
//! - **A server that restarted** counts for nothing, for votes and for renewals, until no hold can exist that it may
//!   have granted before, and then grants only greater ballots. Its own files are not trusted for that.
//!
//! There are only exclusive holds.

mod absence;
mod admin;
mod backend;
mod ballots;
mod connect;
mod eviction;
mod fence;
mod inspection;
mod keys;
mod majority;
mod membership;
mod restoring;
mod round;
mod scripts;
mod standing;
mod voter;
mod votes;

/// Name of this backend in capabilities, errors and metrics.
const BACKEND: &str = "redis-quorum";

pub use self::backend::QuorumBackend;
pub use self::fence::QuorumFence;
