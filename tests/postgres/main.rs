//! Tests of the Postgres backend on real servers: the whole contract, and properties of Postgres.

#![allow(clippy::expect_used, clippy::panic)]

mod access;
mod answers;
mod conformance;
mod doctor;
mod ends;
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
mod several;
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

use lock_testkit::child;

#[test]
fn child_role() {
    child::run(async |role| match role.as_str() {
        "holder that ends with its connection" => ends::hold().await,
        other => panic!("no such role: {other}"),
    });
}
