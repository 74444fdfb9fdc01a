//! Requests of many clients at the same time, and the length of a hold.

use std::time::Duration;

use futures_util::future::join_all;
use lock_core::backend::{Attempt, Claim};
use lock_core::{DistributedLock, LockAdmin, LockRequest, OwnerId};
use memcached_backend::MemcachedBackend;
use tokio::time::{Instant, sleep};

use crate::server::{LIMIT, Memcached};

const CLIENTS: usize = 8;
const ROUNDS: usize = 100;

/// Time that a loaded machine may add.
const SLACK: Duration = Duration::from_secs(3);

async fn client() -> MemcachedBackend {
    let url = Memcached::shared().await.url();
    MemcachedBackend::connect(&url).await.expect("a connection")
}

fn claim(name: &str, ttl: Duration) -> Claim {
    LockRequest::new(name).ttl(ttl).claim().expect("a good claim")
}

fn fresh_name() -> String {
    format!("race-{}", OwnerId::random().expose())
}

async fn is_granted(client: &MemcachedBackend, claim: &Claim) -> bool {
    matches!(client.acquire(claim, None).await.expect("an answer"), Attempt::Granted(_))
}

/// C14, S3: of many simultaneous requests for a lock that was held before, one is granted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_one_of_many_at_once_is_granted() {
    let clients = join_all((0..CLIENTS).map(|_| client())).await;
    let name = fresh_name();
    for round in 0..ROUNDS {
        let claims: Vec<_> = clients.iter().map(|_| claim(&name, LIMIT)).collect();
        let asked = clients.iter().zip(&claims).map(|(client, claim)| is_granted(client, claim));
        let granted = join_all(asked).await.into_iter().filter(|granted| *granted).count();
        assert_eq!(granted, 1, "in round {round}");
        let ended = claims.iter().map(|claim| clients[0].release(&claim.name, claim.owner));
        assert!(join_all(ended).await.iter().all(Result::is_ok), "in round {round}");
    }
}

/// C19: an attempt and its simultaneous withdrawal leave nothing, in either order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c19_an_attempt_beside_its_withdrawal_takes_nothing() {
    let (one, other) = (client().await, client().await);
    for round in 0..ROUNDS {
        let claim = claim(&fresh_name(), LIMIT);
        let owners = [claim.owner];
        let (_, withdrawn) =
            tokio::join!(one.acquire(&claim, None), other.withdraw(&claim.name, &owners));
        withdrawn.expect("an answer");
        let state = one.inspect(&claim.name).await.expect("an answer");
        assert_eq!(state.holder(), None, "a ghost holds the lock in round {round}");
    }
}

/// C4, C28: at any fraction of the server's second, a hold lasts for the granted TTL, and at most two seconds
/// longer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c04_a_hold_lasts_for_what_was_granted() {
    join_all((0..20).map(|i| lasts_for_what_was_granted(Duration::from_millis(100) * i))).await;
}

async fn lasts_for_what_was_granted(pause: Duration) {
    sleep(pause).await;
    let (holder, next, name) = (client().await, client().await, fresh_name());
    let asked = Instant::now();
    let attempt = holder.acquire(&claim(&name, Duration::from_millis(900)), None).await;
    let Ok(Attempt::Granted(grant)) = attempt else { panic!("{attempt:?}") };
    let (granted, waiting) = (Instant::now(), claim(&name, LIMIT));
    while !is_granted(&next, &waiting).await {
        sleep(Duration::from_millis(5)).await;
    }
    let (at_least, at_most) = (granted.elapsed(), asked.elapsed());
    assert_eq!(grant.ttl, Duration::from_secs(1));
    assert!(at_most >= grant.ttl, "it lasted {at_most:?}");
    assert!(at_least <= grant.ttl + Duration::from_secs(2) + SLACK, "it lasted {at_least:?}");
}
