//! Tests of the Redis backend on a cluster, and on the primary of sentinels: the whole contract on both, also
//! while slots move and servers are replaced.

#![allow(clippy::expect_used, clippy::panic)]

mod cluster;
mod credentials;
mod failover;
mod faults;
mod forgotten;
mod load;
#[path = "../support/redis_renewals.rs"]
mod redis_renewals;
#[path = "../support/redis_server.rs"]
mod redis_server;
#[path = "../support/redis_watches.rs"]
mod redis_watches;
mod sale;
mod sentinel;
#[allow(dead_code, unused_imports, reason = "it is shared with the tests of other servers")]
#[path = "../support/mod.rs"]
mod support;
#[cfg(any(feature = "redis-rustls", feature = "redis-native-tls"))]
mod tls;

use std::time::Duration;

use lock_testkit::child;

/// Long enough that a pause of the machine causes no failover.
const NEVER: Duration = Duration::from_secs(60);

/// For tests that want a failover soon, and none by a pause of the machine.
const SOON: Duration = Duration::from_secs(3);

#[test]
fn child_role() {
    child::run(async |role| match role.as_str() {
        sale::SELLER => sale::sell().await,
        sale::SLOW_SELLER => sale::sell_slowly().await,
        other => panic!("no such role: {other}"),
    });
}
