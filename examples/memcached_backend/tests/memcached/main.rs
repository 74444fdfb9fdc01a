//! Tests of the backend on a real Memcached.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod cache;
mod conformance;
mod faults;
mod histories;
mod joins_in;
mod races;
mod server;

/// The workers of histories, which are processes of this program.
#[test]
fn child_role() {
    lock_testkit::child::run(async |_| lock_testkit::chaos::play::<histories::Histories>().await);
}
