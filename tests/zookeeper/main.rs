//! The ZooKeeper backend keeps the whole contract, on a real server.

#![allow(clippy::expect_used, clippy::panic)]

mod access;
mod conformance;
mod faults;
mod members;
mod servers;
mod sessions;
#[allow(dead_code, unused_imports, reason = "it is shared with the tests of other servers")]
#[path = "../support/mod.rs"]
mod support;
