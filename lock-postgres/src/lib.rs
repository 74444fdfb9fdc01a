//! Leasehold's locks on Postgres: rows of a lease table.
//!
//! ```no_run
//! # async fn example() -> Result<(), lock_core::LockError> {
//! use lock_core::LockClient;
//! use lock_postgres::PostgresBackend;
//!
//! let locks = LockClient::new(PostgresBackend::connect("postgres://app@localhost/app").await?);
//! let guard = locks.acquire("stock:42").await?;
//! # Ok(()) }
//! ```
//!
//! # Protocol
//! Every operation is one call of a function of the schema: one round trip, and a transaction of its own unless it has
//! company.
//! A function first locks the one row of the name, which never changes, and looks at grants and queue after,
//! in a statement of its own. Under `READ COMMITTED` that statement sees what others committed while it
//! waited. Time is `clock_timestamp()`.
//!
//! - **Company**: what many tasks of a client acquire or release at the same time goes as one call for up to 32
//!   locks, in one transaction. It grants locks that are free, and ends holds for which nobody waits. The rest is left,
//!   and goes alone: it needs one round trip more.
//! - **Grants** are appended: a grant is a new row in place of the one before it, under another key. The
//!   newest is found by the key. One row that is updated for ever would grow slower under any open snapshot, without end.
//!   A lock that nobody used for a week is forgotten; its next token starts from the time.
//! - **Token**: one more than the last, or the server's time in µs, whichever is greater.
//! - **Since when** a lock is held is read from the token, which is the time of the grant unless the last
//!   token was not below that time. After the server's clock was set back a token is ahead of the clock,
//!   and then no time is shown.
//! - **Durability**: a grant, an extension and the mark of a fence are committed synchronously even
//!   where `synchronous_commit` is off. So a crash of the server loses nothing that anyone counts on. A
//!   release that nobody waits for does not wait for the disk: if a crash forgets it, the lock is held
//!   until its TTL.
//! - **Kinds of hold**: an exclusive hold is the lock's newest grant, and nothing else. Those who hold a lock
//!   beside each other are rows of a table of their own, one a holder, with tokens of the same counter. The
//!   newest grant then tells that several hold, of which kind, and before which time the hold of none of them
//!   is over. So a request for an exclusive hold reads the same row, whatever the kind. After that time the
//!   first request that looks takes out the holders whose time is over.
//! - **Queue**: a waiter takes a place by order of arrival. A release grants the lock to the first waiter
//!   that is alive, and to all who follow and fit beside it. So does whatever else makes room: an eviction, a
//!   withdrawal, a look after the end of a hold. Each winner's client is notified once that is committed, by the
//!   same request: a message within the commit would hold up all others of the cluster that notify. A client
//!   that waits has one session that listens, on a channel that nobody can guess. It holds an advisory lock, by
//!   which the releaser sees whether the session lives. Anyone may see the key of that lock, which is a hash,
//!   and does not tell the channel. A pushed grant lasts 3 s until its holder renews it, so that a waiter that
//!   died in silence costs the others no more. A waiter whose session is gone is passed over, and keeps its
//!   place for as long. One that asks for another number of permits than the lock has loses its place, and
//!   learns why when it looks.
//! - **Withdrawn claims** are remembered for 30 s, so that a request that comes late takes nothing.
//! - **Jams**: an operation waits at most 1 s for the row of its lock. Attempts at one lock use at most a
//!   quarter of the client's connections, and one is left to renewals. So a lock whose row somebody else
//!   keeps costs no other lock.
//! - **Synchronous standbys**: the server ends the wait of a commit for them by a time-out or a cancel, and goes on as if
//!   they had it. No time-out is around a commit but that of a hand-off, in a procedure. If that commit took long, the
//!   next holder is not told: it asks for itself, and the commit of its request waits for the standbys.
//! - **Sessions**: over a connection with a session of its own requests are prepared statements, and settings are those of
//!   the functions. Their values go apart from their text, so that no owner id stands in
//!   `pg_stat_activity` or in the log. Behind a pooler that gives each transaction another session,
//!   requests go as text with their settings before them, and no notification arrives. `connect` sees that
//!   two connections share a session or one of them changes it, and says so in `capabilities()`. Waiters then keep their
//!   places in the queue, and poll every 100 ms.
//!
//! # Holds that end with the connection
//! [`PostgresOptions::ends_with_connection`] lets holds end when their client is gone, or at their TTL. The client keeps
//! one session for all its holds, with an advisory lock. The key of that lock stands beside each hold. Who finds a lock
//! held looks whether the holder's session still has it. If not, the hold ends 3 s later. The client gives its holds up
//! when the connection ends, or is silent for 2.5 s: so nobody is let in beside a holder whose session was only
//! terminated or cut. A server refuses grants and extensions for a session that it does not have. A client that
//! attached the lease of another, and extends it, ends it with its own connection from then on.
//!
//! # What Postgres does not promise
//! Expiry goes by the server's wall clock: a step forward ends leases early, a step back keeps them
//! longer. A failover to an asynchronous standby, or a restore of a backup, can lose a lock that is
//! held, and a second holder can then be granted it. The first holder learns of it at its next renewal,
//! and its token is the smaller one: check tokens at the resource ([`PostgresFence`]).
//!
//! # The schema
//! Connecting makes it if it is missing and the user may: schema `leasehold`, table `locks` and its
//! companions. Else run what [`PostgresOptions::schema_sql`] returns as its owner, and grant the users
//! of locks `USAGE` on the schema and `EXECUTE` on its functions. These work with the rights of their
//! owner, and with a `search_path` of their own, so that nothing which others create is ever called.
//!
//! Postgres 13 or newer, and an older one is refused; tested with 15.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod connect;
mod connections;
mod doctor;
mod error;
mod fence;
mod idle;
mod options;
mod reply;
mod schema;
mod server;
mod session;
mod sql;
mod table;
mod transaction;
mod turns;

// The version whose pools and transactions this crate takes.
#[doc(no_inline)]
pub use sqlx;

pub use crate::fence::PostgresFence;
pub use crate::options::PostgresOptions;
pub use crate::table::PostgresBackend;
