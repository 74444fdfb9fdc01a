//! Waiters that miss their turn, and servers that forget their waiters.

use std::time::Duration;

use lock_core::{LockError, Wait};

use super::clients::{
    beside_a_network, client_at, client_within, fresh_name, held, patient, queued, released,
    served, served_within,
};
use super::harness::Harness;
use super::server::Server;
use crate::Mode;

/// A waiter outlives a restart of the server, and is granted the lock.
pub async fn a_waiter_outlives_a_restart_of_the_server<H: Harness>() {
    let mut server = H::start().await;
    let client = || client_within::<H>(server.addr(), 5 * H::REQUEST_TIMEOUT);
    let (holder, waiter) = (client().await, client().await);
    let name = fresh_name();
    let guard = held(&holder, &name).await;
    let token = guard.token();
    let endless = patient(&name).wait(Wait::Forever);
    let waiting = queued(&waiter, &holder, endless, &name).await;
    server.restart().await;
    released(guard).await;
    let next = served(waiting).await;
    assert!(next.token() > token, "the token of the next grant is to be greater");
    released(next).await;
}

/// C28: a waiter whose connections were all closed is still granted the lock.
pub async fn c28_a_cut_connection_costs_a_waiter_at_most_a_poll<H: Harness>() {
    let (holder, waiter, proxy) = beside_a_network::<H>(H::shared().await).await;
    for _ in 0..3 {
        let name = fresh_name();
        let guard = held(&holder, &name).await;
        let waiting = queued(&waiter, &holder, patient(&name), &name).await;
        proxy.cut();
        // One poll, and a second for new connections.
        served_within(Duration::from_secs(2) + H::SLACK, guard, waiting).await;
    }
}

/// C28, L2: a waiter misses a grant that is pushed into a black hole, and its poll finds the grant.
pub async fn c28_a_missed_push_costs_at_most_a_poll<H: Harness>() {
    let (holder, waiter, proxy) = beside_a_network::<H>(H::shared().await).await;
    let name = fresh_name();
    let guard = held(&holder, &name).await;
    let waiting = queued(&waiter, &holder, patient(&name), &name).await;
    proxy.set_existing(Mode::BlackHole);
    // One poll that the black hole swallows, and one on a new connection.
    served_within(Duration::from_secs(3) + H::SLACK, guard, waiting).await;
}

/// C27, C28: a waiter that can open no further connection polls, and keeps its place.
pub async fn c28_a_waiter_without_a_push_connection_polls<H: Harness>() {
    let server = H::shared().await;
    let proxy = H::proxy(server).await;
    // A connection on which an answer is late is replaced, and there is no other one.
    let limit = H::REQUEST_TIMEOUT * 2;
    let waiter = client_within::<H>(proxy.addr(), limit).await;
    let holder = client_at::<H>(server.addr()).await;
    waiter.admin().inspect("x").await.expect("an answer");
    proxy.set(Mode::BlackHole);
    proxy.set_existing(Mode::Pass);
    let name = fresh_name();
    let guard = held(&holder, &name).await;
    let bounded = patient(&name).wait(Wait::AtMost(Duration::from_millis(1500)));
    let late = waiter.acquire(bounded).await;
    assert!(
        matches!(late, Err(LockError::Timeout { .. })),
        "a bounded wait is to end as a time-out: {late:?}"
    );
    let endless = patient(&name).wait(Wait::Forever);
    let waiting = queued(&waiter, &holder, endless, &name).await;
    // Longer than an endless wait lasts without an answer of the server.
    tokio::time::sleep(limit * 6).await;
    served_within(Duration::from_secs(1) + H::SLACK, guard, waiting).await;
}
