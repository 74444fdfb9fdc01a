//! C39: several locks on an etcd server.

use leasehold::MultiRequest;
use leasehold::core::backend::AcquiresSeveral;
use lock_testkit::EtcdServer;

use crate::faults::lease_of;
use crate::renewals::requests;
use crate::servers::claims;
use crate::sessions::{backend, unrenewed};
use crate::support::{MINUTE, client, fresh_name, patient};

fn several(names: &[String]) -> MultiRequest {
    MultiRequest::new(names).ttl(MINUTE)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c39_free_locks_are_acquired_by_one_transaction() {
    let server = EtcdServer::start().await;
    let client = client(&server.url()).await;
    // The first hold of a TTL opens its session, which is kept alive once a second.
    let first = client.acquire(patient(&fresh_name()).ttl(MINUTE)).await.expect("a free lock");
    let names: Vec<_> = (0..MultiRequest::MAX_NAMES).map(|_| fresh_name()).collect();
    let before = requests(&server).await;
    let all = client.acquire_all(several(&names)).await.expect("free locks");
    let sent = requests(&server).await - before;
    // On a busy machine some of their watches are already open, whose keys are read together in a few requests.
    assert!(sent < 20, "{sent} requests for {} locks", MultiRequest::MAX_NAMES);
    let tokens: Vec<_> = all.tokens().map(|(_, token)| token).collect();
    assert!(tokens.iter().all(|token| *token > first.token()), "{tokens:?}");
    all.release().await.expect("held to the end");
    // Each lock has its own counter: the next grants have greater tokens.
    let again = client.acquire_all(several(&names)).await.expect("free locks");
    assert!(again.tokens().zip(tokens).all(|((_, next), token)| next > token));
}

/// One transaction is too small for all locks. If the second one is refused, the holds of the first are told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c15_grants_before_a_refused_transaction_are_told() {
    let server = EtcdServer::start().await;
    let lock = backend(&server).await;
    // The client does not know yet that its session for the last locks has ended.
    let spoiled = unrenewed(&lock, 60 * MINUTE).await;
    let lease = lease_of(&server, &claims(&server, spoiled.name().as_str())[0]);
    server.ctl(&["lease", "revoke", &lease]);
    let ttls =
        (1..=MultiRequest::MAX_NAMES).map(|lock| if lock > 60 { 60 * MINUTE } else { MINUTE });
    let asked = ttls.map(|ttl| patient(&fresh_name()).ttl(ttl).claim().expect("a claim"));
    let grants = lock.acquire_while_free(&asked.collect::<Vec<_>>()).await;
    let held = server.ctl(&["get", "--prefix", "leasehold/locks/", "--keys-only"]);
    let held = held.lines().filter(|line| !line.is_empty()).count();
    assert_eq!(held, 60, "the second transaction is refused");
    assert_eq!(grants.expect("the first are free").len(), held);
}
