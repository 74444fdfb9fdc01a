//! The backend on a real Memcached.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod conformance;
mod server;
