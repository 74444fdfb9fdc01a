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
//! Every operation is one call of a function of the schema: one round trip, and a transaction of its own unless
//! it is batched. A function first locks the one row of the name, which never changes. A second statement then
//! reads grants and queue. Under `READ COMMITTED` it sees what others committed while the first one waited. Time
//! is `clock_timestamp()`.
//!
//! - **Batches**: acquires and releases that many tasks of a client make at the same time go as one call for up
//!   to 32 locks, in one transaction. It grants locks that are free, and ends holds without waiters. Each other
//!   request is sent alone, and takes one round trip more.
//! - **Grants** are appended: a grant replaces the row of the one before it, under a new key. The newest is found
//!   by its key. A single row that is updated again and again would become slower without end under any open
//!   snapshot. A lock that nobody used for a week is forgotten; its next token starts from the time.
//! - **Token**: one more than the last, or the server's time in µs, whichever is greater.
//! - **Since when** a lock is held is read from the token. The token is the time of the grant unless the last
//!   token was not below that time. After the server's clock was set back a token is ahead of the clock; no time
//!   is shown then.
//! - **Durability**: a grant, an extension and the mark of a fence are committed synchronously even where
//!   `synchronous_commit` is off. So a crash of the server loses nothing that a client relies on. A release
//!   without waiters does not wait for the disk: if a crash forgets it, the lock is held until its TTL.
//! - **Kinds of hold**: an exclusive hold is the lock's newest grant, and nothing else. Holders of a lock beside
//!   each other are rows of a separate table, one a holder, with tokens of the same counter. The newest grant
//!   then says that several hold the lock, of which kind, and before which time none of their holds expires. So a
//!   request for an exclusive hold reads the same row for every kind. After that time the next request removes
//!   the expired holders.
//! - **Queue**: a waiter takes a place by order of arrival. A release grants the lock to the first living waiter,
//!   and to all that follow and fit beside it. So does an eviction, a withdrawal, and a request after a hold
//!   expired. The same request notifies each winner's client after the commit: NOTIFY within the commit would
//!   delay all other transactions of the cluster that notify. A client that waits has one session that listens,
//!   on a channel that nobody can guess. The session holds an advisory lock, by which a releaser sees that the
//!   session lives. Everyone may see the key of that lock; it is a hash, and does not reveal the channel. A
//!   pushed grant lasts 3 s until its holder renews it, so that a waiter that died silently delays the others no
//!   longer. A waiter whose session is gone is passed over, and keeps its place for as long. A waiter for another
//!   number of permits than the lock has loses its place; its next request tells it why.
//! - **Withdrawn claims** are remembered for 30 s, so that a request that comes late takes nothing.
//! - **Jams**: an operation waits at most 0.75 s for the row of its lock. Attempts at one lock use at most a quarter
//!   of the client's connections, and one connection is left to renewals. So a lock whose row somebody else keeps
//!   locked delays no other lock.
//! - **Synchronous standbys**: after a time-out or a cancel the server ends the wait of a commit for standbys,
//!   and goes on as if they had the commit. Only the commit of a hand-off, in a procedure, runs under a time-out.
//!   If that commit took long, the next holder is not notified: it asks again by itself, and the commit of its
//!   request waits for the standbys.
//! - **Sessions**: over a connection with its own session, requests are prepared statements, and settings come
//!   from the functions. Values go apart from the text, so that no owner id stands in `pg_stat_activity` or in
//!   the log. Behind a pooler that gives each transaction another session, requests go as text with their
//!   settings before them, and no notification arrives. `connect` detects that two connections share a session or
//!   that one changes it, and `capabilities()` says so. Waiters then keep their places in the queue, and poll
//!   every 100 ms.
//!
//! # What Postgres does not promise
//! Expiry goes by the server's wall clock: a step forward ends leases early, a step back keeps them longer. A
//! failover to an asynchronous standby, or a restore of a backup, can lose a hold. A second holder can then be
//! granted the lock. The first holder learns of the loss at its next renewal, and its token is the smaller one:
//! check tokens at the resource ([`PostgresFence`]).
//!
//! # The schema
//! Connecting makes it if it is missing and the user may: schema `leasehold`, table `locks` and its companions.
//! Otherwise run the script of [`PostgresOptions::schema_sql`] as the owner of the schema, and grant the users of
//! locks `USAGE` on the schema and `EXECUTE` on its functions. The functions work with the rights of their owner,
//! and with their own `search_path`, so that they call no object that others create. A client refuses a schema of an
//! owner that it does not trust ([`PostgresOptions::owner`]).
//!
//! Postgres 13 or newer; an older server is refused. Tested with 15.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod connect;
mod connections;
mod doctor;
mod error;
mod fence;
mod idle;
mod opener;
mod options;
mod reply;
mod schema;
mod server;
mod session;
mod sql;
mod table;
mod transaction;
mod turns;

// The version whose pools and transactions this crate accepts.
#[doc(no_inline)]
pub use sqlx;

pub use crate::fence::PostgresFence;
pub use crate::options::PostgresOptions;
pub use crate::table::PostgresBackend;
