//! Cost of many locks and many waiters, and their remains.

use std::time::Duration;

use futures_util::future::join_all;
use lock_core::{LockClient, LockGuard, Wait, Wakeup};
use tokio::time::timeout;

use super::clients::{
    LIMIT, MINUTE, beside_a_network, client_at, client_within, fresh_name, held, patient, released,
    until_waiting,
};
use super::harness::Harness;
use super::server::Server;
use crate::eventually;

/// Holds all `names`, as many at once as a client of the server may ask for.
async fn held_all<H: Harness>(
    client: &LockClient,
    names: &[String],
    ttl: Duration,
) -> Vec<LockGuard> {
    let mut guards = Vec::new();
    for some in names.chunks(H::AT_ONCE) {
        let acquiring = some.iter().map(|name| client.acquire(patient(name).ttl(ttl)));
        let held = join_all(acquiring).await.into_iter();
        guards.extend(held.map(|guard| guard.expect("a free lock")));
    }
    guards
}

/// C12: a client with many holds keeps all of them.
pub async fn c12_many_holds_are_renewed<H: Harness>() {
    let server = H::start().await;
    let (client, tag) = (client_within::<H>(server.addr(), LIMIT).await, fresh_name());
    let names: Vec<String> = (0..H::HOLDS).map(|i| format!("{tag}-{i}")).collect();
    let guards = held_all::<H>(&client, &names, Duration::from_secs(15)).await;
    let first: Vec<_> = guards.iter().map(LockGuard::deadline).collect();
    eventually("all are renewed", LIMIT, async || {
        let lost = guards.iter().find(|guard| !guard.is_held());
        assert!(lost.is_none(), "all holds are to be kept: {lost:?}");
        guards.iter().zip(&first).all(|(guard, first)| guard.deadline() != *first)
    })
    .await;
    client.shutdown().await;
}

/// C26: one connection for pushes, and few for requests, however many locks a client waits for.
pub async fn c26_a_client_has_few_connections_however_much_it_waits_for<H: Harness>() {
    let server = H::start().await;
    let (observer, waiter, proxy) = beside_a_network::<H>(&server).await;
    let names: Vec<String> = (0..50).map(|_| fresh_name()).collect();
    // Holds without a watching client.
    let backend = H::connect_at(server.addr()).await;
    for name in &names {
        let claim = patient(name).claim().expect("a good name");
        backend.acquire(&claim, None).await.expect("an answer");
    }
    // The last begins to wait long after the first on a slow machine.
    let waiting = names.iter().map(async |name| {
        let guard = waiter.acquire(patient(name).wait(10 * LIMIT)).await;
        released(guard.expect("its turn comes")).await;
    });
    let release = async {
        // One after the other: fifty looks at a time would delay the waiters.
        for name in &names {
            until_waiting(&observer, name, 1).await;
        }
        if waiter.capabilities().wakeup == Wakeup::Push {
            let pushes = H::pushes(&server).await;
            assert_eq!(pushes, 1, "a client is to have one connection for all pushes");
        }
        let (connections, most) = (proxy.open_connections(), H::CONNECTIONS);
        assert!(
            connections <= most,
            "a client is to open {most} connections at most: {connections}"
        );
        let admin = observer.admin();
        join_all(names.iter().map(|name| admin.evict(name))).await;
    };
    tokio::join!(join_all(waiting), release);
}

/// R1, C19, C21: hundreds of acquisitions that were dropped at any point leave nothing.
pub async fn r1_nothing_is_left_behind<H: Harness>() {
    let server = H::start().await;
    for _ in 0..3 {
        let client = client_at::<H>(server.addr()).await;
        let cycles = (0..200).map(async |i| {
            let (name, limit) = (format!("leak-{}", i % 20), i * 737 % 15_000);
            let _ = timeout(Duration::from_micros(limit), client.acquire(patient(&name))).await;
            drop(held(&client, &name).await);
        });
        join_all(cycles).await;
        client.shutdown().await;
    }
    H::until_nothing_is_left(&server).await;
}

/// R1: ended waits, tries at a busy lock, and holds that moved to a longer TTL leave nothing either.
pub async fn r1_waits_tries_and_extensions_leave_nothing_behind<H: Harness>() {
    let server = H::start().await;
    let (holder, other) =
        (client_at::<H>(server.addr()).await, client_at::<H>(server.addr()).await);
    let guard = held(&holder, "a").await;
    for _ in 0..10 {
        assert!(other.try_acquire(patient("a")).await.expect("an answer").is_none());
        let state = holder.admin().inspect("a").await.expect("an answer");
        assert_eq!(state.waiters.unwrap_or(0), 0, "a try is to leave no place in the queue");
    }
    let short = patient("a").wait(Wait::AtMost(Duration::from_millis(50)));
    for late in join_all((0..5).map(|_| other.acquire(short.clone()))).await {
        assert!(late.is_err(), "two holders");
    }
    for factor in 1..5 {
        guard.extend(MINUTE * factor).await.expect("held");
    }
    released(guard).await;
    holder.shutdown().await;
    other.shutdown().await;
    drop((holder, other));
    H::until_nothing_is_left(&server).await;
}

/// A listing reads many locks, page by page.
pub async fn a_listing_of_many_locks_is_whole_and_sorted<H: Harness>() {
    let server = H::shared().await;
    let (client, tag) = (client_within::<H>(server.addr(), LIMIT).await, fresh_name());
    let names: Vec<String> = (0..1200).map(|i| format!("{tag}/{i:04}")).collect();
    let guards = held_all::<H>(&client, &names, MINUTE).await;
    let listed = client_within::<H>(server.addr(), LIMIT)
        .await
        .admin()
        .list(&tag, 1200)
        .await
        .expect("a listing");
    let listed: Vec<String> = listed.iter().map(|state| state.name.to_string()).collect();
    assert_eq!(listed, names, "a listing is to be whole, and sorted by name");
    drop(guards);
    client.shutdown().await;
}
