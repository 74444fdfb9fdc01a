//! Servers that are dead, stopped or full, and networks that lose requests.

use std::time::Duration;

use lock_testkit::{Mode, Proxy, RedisServer, eventually};
use tokio::time::timeout;

use crate::server::{RedisFaults, is_free};
use crate::support::{
    LIMIT, SLACK, a_silent_waiter_keeps_its_place, client, fresh_name, held, patient, queued,
    refused_for_sure, served_within, turn,
};

lock_testkit::test_faults!(RedisFaults);

/// C27: if its turn does not come meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c27_a_waiter_that_was_silent_keeps_its_place() {
    a_silent_waiter_keeps_its_place::<RedisFaults>(|server| {
        server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    })
    .await;
}

/// C28: without the push connection a waiter is still granted the lock, and the connection is opened again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_a_dead_push_connection_costs_at_most_a_poll() {
    let server = RedisServer::start().await;
    let (holder, waiter) = (client(&server.url()).await, client(&server.url()).await);
    for _ in 0..3 {
        let name = fresh_name();
        let guard = held(&holder, &name).await;
        let waiting = queued(&waiter, &holder, patient(&name), &name).await;
        server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]);
        served_within(Duration::from_secs(1) + SLACK, guard, waiting).await;
    }
}

/// Refusals of the server are typed, tell if a retry may help, and leave no half-done work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_takes_no_writes_says_so_and_takes_no_lock() {
    let server = RedisServer::start().await;
    let client = client(&server.url()).await;
    let memory = [&["CONFIG", "SET", "maxmemory", "1"][..], &["CONFIG", "SET", "maxmemory", "0"]];
    let replica = [&["REPLICAOF", "127.0.0.1", "1"][..], &["REPLICAOF", "NO", "ONE"]];
    let replicas = [
        &["CONFIG", "SET", "min-replicas-to-write", "1"][..],
        &["CONFIG", "SET", "min-replicas-to-write", "0"],
    ];
    for [spoil, mend] in [memory, replica, replicas] {
        let name = fresh_name();
        server.cli(spoil);
        let source = refused_for_sure(&client, &name).await;
        assert!(source.is_transient(), "{spoil:?}: {source}");
        server.cli(mend);
        assert!(is_free(&server, &name), "{spoil:?}");
        turn(&client, &name).await;
    }
}

/// C19: a server without memory grants no lock, but withdraws dropped claims.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c19_a_full_server_takes_back_what_was_dropped() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.addr()).await;
    let (client, name) = (client(&proxy.url()).await, fresh_name());
    turn(&client, &fresh_name()).await;
    proxy.set(Mode::Delay(Duration::from_millis(100)));
    let cancelled = timeout(Duration::from_millis(150), client.acquire(patient(&name))).await;
    assert!(cancelled.is_err(), "it was to be dropped before the reply");
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    eventually("the lock is free", LIMIT, async || is_free(&server, &name)).await;
    client.shutdown().await;
    assert!(is_free(&server, &name));
}
