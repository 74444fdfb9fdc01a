//! Tests of the backend on a real Memcached.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod cache;
mod conformance;
mod faults;
mod joins_in;
mod races;
mod server;
