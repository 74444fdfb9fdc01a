//! Connections that Redis servers close while they are idle (`timeout`).

use std::time::Duration;

use leasehold::core::backend::{Extension, Renewal};
use leasehold::{DistributedLock, Fence, LockClient, Ttl};
use lock_testkit::RedisServer;
use tokio::time::sleep;

use crate::support::{MINUTE, fresh_name, held};

/// Ends the connections for requests, as `timeout` does.
async fn end_idle_connections(servers: &[RedisServer]) {
    for server in servers {
        server.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
    }
    // The runtime reads the ends when its threads have nothing else to do.
    sleep(Duration::from_millis(10)).await;
}

/// Asserts that requests which are not repeated succeed after each idle time: renewals by one request each, advances of
/// a fence, and evictions.
pub(crate) async fn what_is_asked_once_is_done(
    locks: impl DistributedLock + Clone,
    fence: impl Fence,
    servers: &[RedisServer],
) {
    let (client, name) = (LockClient::new(locks.clone()), fresh_name());
    let lease = held(&client, &name).await.detach().expect("it is held");
    let renewals = [Renewal::new(&lease, Ttl::new(MINUTE).expect("a TTL"))];
    for _ in 0..5 {
        end_idle_connections(servers).await;
        let extended = locks.extend(&renewals).await.pop().expect("an answer");
        assert_eq!(extended.expect("the servers are healthy"), Extension::Extended(MINUTE));
        end_idle_connections(servers).await;
        fence.advance(lease.token()).await.expect("the servers are healthy");
    }
    end_idle_connections(servers).await;
    let evicted = client.admin().evict(&*name).await.expect("the servers are healthy");
    assert_eq!(evicted.len(), 1);
}
