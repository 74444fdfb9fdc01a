//! Tests of the etcd backend on real servers: the whole contract, and properties of etcd.

#![allow(clippy::expect_used, clippy::panic)]

mod access;
mod conformance;
mod faults;
mod fence;
mod floor;
mod handed_on;
mod identity;
mod kinds;
mod members;
mod places;
mod refusals;
mod renewals;
mod resources;
mod seats;
mod servers;
mod sessions;
mod since;
#[allow(dead_code, unused_imports, reason = "it is shared with the tests of other servers")]
#[path = "../support/mod.rs"]
mod support;
mod together;
