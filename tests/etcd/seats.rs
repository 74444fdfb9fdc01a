//! The keys of claims are reused, so that the cost of a lock does not grow with its use, and no late request changes
//! the claim of another.

use futures_util::future::join_all;
use leasehold::core::LockAdmin;
use leasehold::core::backend::DistributedLockExt;
use lock_testkit::LeaseExt;
use std::collections::HashSet;
use std::time::{Duration, Instant};

use leasehold::core::backend::{Extension, Release, WAITER_LIVENESS};
use leasehold::etcd::EtcdBackend;
use leasehold::etcd::etcd_client::Client;
use leasehold::{DistributedLock, LockClient, LockName, LockRequest};
use lock_testkit::{EtcdServer, Mode, Proxy};
use tokio::time::timeout;

use crate::servers::{EtcdFaults, claims, one_member, url_at};
use crate::sessions::{backend, renewal};
use crate::support::{
    MINUTE, SLACK, client, client_through, fresh_name, held, patient, queued, released, served,
    until_waiting,
};

/// Returns the key of a lock while a client holds it, which then releases it.
async fn key_of_a_cycle(server: &EtcdServer, client: &LockClient, name: &str) -> String {
    let guard = held(client, name).await;
    let keys = claims(server, name);
    assert_eq!(keys.len(), 1, "{keys:?}");
    released(guard).await;
    keys.into_iter().next().expect("a key")
}

/// C26, C27: this holds even if the lock changes hands.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_is_taken_often_has_few_keys() {
    let server = one_member().await;
    let (one, other) = (client(&server.url()).await, client(&server.url()).await);
    let (name, mut keys) = (fresh_name(), HashSet::new());
    for _ in 0..5 {
        keys.insert(key_of_a_cycle(server, &one, &name).await);
        let guard = held(&one, &name).await;
        let waiting = queued(&other, &one, patient(&name), &name).await;
        keys.extend(claims(server, &name));
        released(guard).await;
        released(served(waiting).await).await;
    }
    assert_eq!(keys.len(), 2, "{keys:?}");
}

/// So does a lock that many tasks of one client hold together.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_many_readers_take_often_has_a_key_for_each() {
    const READERS: usize = 20;
    let server = one_member().await;
    let (lock, name, mut keys) = (backend(server).await, fresh_name(), HashSet::new());
    for _ in 0..3 {
        let read = async || {
            let request = LockRequest::new(&*name).shared().ttl(MINUTE);
            lock.acquire_lease(&request).await.expect("no writer")
        };
        let leases = join_all((0..READERS).map(|_| read())).await;
        keys.extend(claims(server, &name));
        join_all(leases.iter().map(|lease| lock.release(lease.name(), lease.owner()))).await;
    }
    assert_eq!(keys.len(), READERS);
}

/// C19: a late release finds the key of the next hold, and does not change it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c19_a_late_release_does_not_end_the_next_hold_with_its_key() {
    let server = one_member().await;
    let proxy = Proxy::start(server.addr()).await;
    let lock = EtcdBackend::connect(&url_at(proxy.addr())).await.expect("a connection");
    let (name, other) = (fresh_name(), LockName::new(fresh_name()).expect("a name"));
    let request = LockRequest::new(&*name).ttl(MINUTE);
    let over = lock.acquire_lease(&request).await.expect("a free lock");
    let key = claims(server, &name);
    proxy.set_existing(Mode::BlackHole);
    let late = {
        let (lock, over) = (lock.clone(), over.clone());
        tokio::spawn(async move { lock.release(over.name(), over.owner()).await })
    };
    // After such a long silence of a caller, the client turns to another connection.
    let left = timeout(Duration::from_millis(400), lock.inspect(&other)).await;
    assert!(left.is_err(), "the connection is dead");
    let released = lock.release(over.name(), over.owner()).await.expect("an answer");
    assert_eq!(released, Release::Released);
    let next = lock.acquire_lease(&request).await.expect("a free lock");
    assert_eq!(claims(server, &name), key, "the key is used again");
    proxy.set_existing(Mode::Pass);
    let released = late.await.expect("no panic").expect("an answer");
    assert_eq!(released, Release::NotHeld);
    assert_eq!(claims(server, &name), key);
    let released = lock.release(next.name(), next.owner()).await.expect("an answer");
    assert_eq!(released, Release::Released);
}

/// The value has the owner of the claim: another client, without that seat, can release it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_is_found_by_a_client_that_did_not_make_it() {
    let server = one_member().await;
    let (one, other) = (backend(server).await, backend(server).await);
    let name = fresh_name();
    let lease = one.acquire_lease(&LockRequest::new(&*name)).await.expect("a free lock");
    let released = other.release(lease.name(), lease.owner()).await.expect("an answer");
    assert_eq!(released, Release::Released);
    assert!(claims(server, &name).is_empty());
    let again = other.release(lease.name(), lease.owner()).await.expect("an answer");
    assert_eq!(again, Release::NotHeld);
}

/// C14: a client may reuse a key whose earlier claim another client knows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c14_a_claim_that_is_over_costs_the_next_one_with_its_key_nothing() {
    let server = one_member().await;
    let (one, other) = (backend(server).await, backend(server).await);
    let request = LockRequest::new(&*fresh_name());
    let over = one.acquire_lease(&request).await.expect("a free lock");
    assert!(matches!(other.extend_one(&renewal(&over)).await, Ok(Extension::Extended(_))));
    one.release(over.name(), over.owner()).await.expect("an answer");
    let next = one.acquire_lease(&request).await.expect("a free lock");
    let released = other.release(over.name(), over.owner()).await.expect("an answer");
    assert_eq!(released, Release::NotHeld);
    other.withdraw(over.name(), &[over.owner()]).await.expect("an answer");
    let released = one.release(next.name(), next.owner()).await.expect("an answer");
    assert_eq!(released, Release::Released);
}

/// C28: a key that was before a waiter, and was made anew behind it, hides no dead waiters.
///
/// ```text
///   holder ◀── dead ◀── dead ◀── waiter ◀── the holder's key again, of a claim that is not understood
/// ```
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_a_key_that_is_used_again_behind_a_waiter_hides_no_dead_waiters() {
    let server = one_member().await;
    let proxy = Proxy::start(server.addr()).await;
    let mut operator = Client::connect([server.addr().to_string()], None).await.expect("a client");
    let (holder, next) = (client(&server.url()).await, client(&server.url()).await);
    let (name, mut dead) = (fresh_name(), Vec::new());
    let guard = held(&holder, &name).await;
    let key = claims(server, &name).remove(0);
    for waiters in 1..=2 {
        let (dies, request) = (client_through::<EtcdFaults>(&proxy).await, patient(&name));
        dead.push(tokio::spawn(async move { dies.acquire(request).await }));
        until_waiting(&holder, &name, waiters).await;
    }
    let request = patient(&name);
    let waiting = tokio::spawn(async move { next.acquire(request).await });
    until_waiting(&holder, &name, 3).await;
    proxy.set(Mode::BlackHole);
    released(guard).await;
    operator.put(&*key, "of a later format", None).await.expect("an answer");
    let start = Instant::now();
    let guard = served(waiting).await;
    assert!(start.elapsed() < WAITER_LIVENESS + SLACK, "{:?}", start.elapsed());
    released(guard).await;
    operator.delete(&*key, None).await.expect("an answer");
    dead.iter().for_each(|waiting| waiting.abort());
}
