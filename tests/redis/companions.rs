//! Keys of another type in the place of a lock's companions, while the lock is held.

use leasehold::admin::Health;
use leasehold::core::backend::{Claim, Release};
use leasehold::core::{LockAdmin, Whom};
use leasehold::redis::RedisBackend;
use leasehold::{DistributedLock, Kind};
use lock_testkit::{RedisServer, Reply};

use crate::queue::{claim, companion, place};
use crate::support::{client, fresh_name, held, patient, released};

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

/// C31: the lock's own state does not show why nobody gets the lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c31_a_companion_of_somebody_else_is_named() {
    let server = RedisServer::start().await;
    let client = client(&server.url()).await;
    let spoils: [(&str, &[&str]); 5] = [
        ("fence", &["SET", "abc"]),
        ("fence", &["RPUSH", "x"]),
        ("queue", &["SET", "abc"]),
        ("waiters", &["SET", "abc"]),
        ("waiters", &["RPUSH", "x"]),
    ];
    for (what, command) in spoils {
        let name = fresh_name();
        released(held(&client, &name).await).await;
        let found = client.admin().examine(&*name).await.expect("an answer");
        assert!(found.iter().all(|finding| finding.check != "companions"), "{found:?}");
        let companion = companion(&name, what);
        server.cli(&["DEL", &companion]);
        server.cli(&[command[0], &companion, command[1]]);
        let found = client.admin().examine(&*name).await.expect("an answer");
        let named = found.iter().find(|finding| finding.check == "companions").expect(what);
        assert!(named.health == Health::Risk && named.seen.contains(&companion), "{named}");
    }
}

/// C15: the error says where to look.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c15_a_companion_of_another_type_has_an_error_that_names_the_candidates() {
    let server = RedisServer::start().await;
    let (client, name) = (client(&server.url()).await, fresh_name());
    let _held = held(&client, &name).await;
    server.cli(&["SET", &companion(&name, "queue"), "abc"]);
    let refused = client.acquire(patient(&name)).await.expect_err("it cannot wait");
    let text = refused.to_string();
    assert!(text.contains("{NAME}:queue") && text.contains("leasehold doctor NAME"), "{text}");
}
