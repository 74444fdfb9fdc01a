//! Waiters that miss their turn, and servers that forget who waits.

use std::time::Duration;

use leasehold::{LockError, Wait};
use lock_testkit::{Mode, Proxy};

use super::{
    REQUEST_TIMEOUT, Server, client, client_through, fresh_name, held, patient, queued, released,
    served, served_within,
};

/// A waiter outlives a restart of the server, and gets in.
pub(crate) async fn a_waiter_outlives_a_restart_of_the_server<S: Server>() {
    let mut server = S::start().await;
    let (holder, waiter) = (client(&server.url()).await, client(&server.url()).await);
    let name = fresh_name();
    let guard = held(&holder, &name).await;
    let token = guard.token();
    let endless = patient(&name).wait(Wait::Forever);
    let waiting = queued(&waiter, &holder, endless, &name).await;
    server.restart().await;
    released(guard).await;
    let next = served(waiting).await;
    assert!(next.token() > token);
    released(next).await;
}

/// C28: a waiter whose connections were all closed gets in all the same.
pub(crate) async fn c28_a_cut_connection_costs_a_waiter_at_most_a_poll<S: Server>() {
    let server = S::shared().await;
    let proxy = Proxy::start(server.addr()).await;
    let (holder, waiter) = (client(&server.url()).await, client_through::<S>(&proxy).await);
    for _ in 0..3 {
        let name = fresh_name();
        let guard = held(&holder, &name).await;
        let waiting = queued(&waiter, &holder, patient(&name), &name).await;
        proxy.cut();
        // One poll, and a second for new connections.
        served_within(Duration::from_secs(2), guard, waiting).await;
    }
}

/// C28, L2: a grant that is pushed into a black hole is missed; the poll finds it.
pub(crate) async fn c28_a_missed_push_costs_at_most_a_poll<S: Server>() {
    let server = S::shared().await;
    let proxy = Proxy::start(server.addr()).await;
    let (holder, waiter) = (client(&server.url()).await, client_through::<S>(&proxy).await);
    let name = fresh_name();
    let guard = held(&holder, &name).await;
    let waiting = queued(&waiter, &holder, patient(&name), &name).await;
    proxy.set_existing(Mode::BlackHole);
    // One poll that the black hole swallows, and one on a new connection.
    served_within(Duration::from_secs(3), guard, waiting).await;
}

/// C27, C28: a waiter that can open no connection but the one it has polls, and keeps its place.
pub(crate) async fn c28_a_waiter_without_a_push_connection_polls<S: Server>() {
    let server = S::shared().await;
    let proxy = Proxy::start(server.addr()).await;
    let (holder, waiter) = (client(&server.url()).await, client_through::<S>(&proxy).await);
    waiter.inspect("x").await.expect("an answer");
    proxy.set(Mode::BlackHole);
    proxy.set_existing(Mode::Pass);
    let name = fresh_name();
    let guard = held(&holder, &name).await;
    let bounded = patient(&name).wait(Wait::AtMost(Duration::from_millis(1500)));
    let late = waiter.acquire(bounded).await;
    assert!(matches!(late, Err(LockError::Timeout { .. })), "{late:?}");
    let endless = patient(&name).wait(Wait::Forever);
    let waiting = queued(&waiter, &holder, endless, &name).await;
    // Longer than an endless wait bears with a server that does not answer.
    tokio::time::sleep(REQUEST_TIMEOUT * 6).await;
    served_within(Duration::from_secs(1), guard, waiting).await;
}
