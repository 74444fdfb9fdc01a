//! Tests of the ZooKeeper backend on real servers: the whole contract.

#![allow(clippy::expect_used, clippy::panic)]

mod access;
mod conformance;
mod deaths;
mod faults;
mod floor;
mod losses;
mod members;
mod moves;
mod relay;
mod servers;
mod sessions;
#[allow(dead_code, unused_imports, reason = "it is shared with the tests of other servers")]
#[path = "../support/mod.rs"]
mod support;
mod waiting;
