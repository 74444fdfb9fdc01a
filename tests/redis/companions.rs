//! Keys of another type in the place of a lock's companions, while the lock is held.

use leasehold::core::backend::{Claim, Release};
use leasehold::core::{LockAdmin, Whom};
use leasehold::redis::RedisBackend;
use leasehold::{DistributedLock, Kind};
use lock_testkit::{RedisServer, Reply};

use crate::queue::{claim, companion, place};
use crate::support::fresh_name;

const COMPANIONS: [&str; 3] = ["queue", "waiters", "fence"];

/// Returns held locks, each with a companion that is a list, and with a waiter or without.
async fn spoilt(server: &RedisServer, backend: &dyn DistributedLock, kind: Kind) -> Vec<Claim> {
    let mut holders = Vec::new();
    for what in COMPANIONS {
        for is_wanted in [false, true] {
            let mut holder = claim(&fresh_name());
            holder.kind = kind;
            backend.acquire(&holder, None).await.expect("an answer");
            if is_wanted {
                place(backend, &claim(holder.name.as_str())).await;
            }
            let companion = companion(holder.name.as_str(), what);
            server.cli(&["DEL", &companion]);
            server.cli(&["RPUSH", &companion, "x"]);
            holders.push(holder);
        }
    }
    holders
}

fn is_free(server: &RedisServer, claim: &Claim) {
    let name = claim.name.as_str();
    let left = server.cli(&["KEYS", &format!("*{name}*")]);
    assert_eq!(server.cli(&["EXISTS", name]), Reply::Integer(0), "it is held beside {left:?}");
}

/// C14: a hold ends, even if a foreign key prevents the next grant.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c14_a_hold_ends_whatever_its_companions_are() {
    let server = RedisServer::start().await;
    let backend = RedisBackend::connect(&server.url()).await.expect("a connection");
    for kind in [Kind::Exclusive, Kind::Shared] {
        for claim in spoilt(&server, &backend, kind).await {
            let answer = backend.release(&claim.name, claim.owner).await;
            assert_eq!(answer.expect("it is released"), Release::Released);
            is_free(&server, &claim);
        }
        for claim in spoilt(&server, &backend, kind).await {
            backend.withdraw(&claim.name, &[claim.owner]).await.expect("it is withdrawn");
            is_free(&server, &claim);
        }
        for claim in spoilt(&server, &backend, kind).await {
            let ended = backend.evict(&claim.name, &Whom::All).await.expect("it is evicted");
            assert_eq!(ended.len(), 1);
            is_free(&server, &claim);
        }
    }
}
