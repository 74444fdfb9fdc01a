//! Tests of the Postgres backend on real servers: the whole contract, and properties of Postgres.

#![allow(clippy::expect_used, clippy::panic)]

mod access;
mod answers;
mod conformance;
mod dead_waiters;
mod doctor;
mod faults;
mod fence;
mod formats;
mod kinds;
mod listening;
mod many_rows;
mod migration;
mod old_rows;
mod pooler;
mod refusals;
mod resources;
mod rights;
mod security;
mod server;
mod since;
mod squatters;
mod standby;
#[allow(dead_code, unused_imports, reason = "it is shared with the tests of other servers")]
#[path = "../support/mod.rs"]
mod support;
mod synchronous;
mod together;
mod tokens;
mod transactions;
