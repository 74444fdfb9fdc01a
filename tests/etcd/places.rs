//! Places in the queue: what becomes of one that nobody looks after, and how one is found again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use leasehold::core::backend::Attempt;
use leasehold::{DistributedLock, LockClient, Wait};
use lock_testkit::{Mode, Proxy, eventually};

use crate::servers::{EtcdFaults, claims, one_member};
use crate::sessions::backend;
use crate::support::{
    LIMIT, client, client_of, client_through, fresh_name, held, patient, queued, released, served,
};

/// A waiter's place ends if its client looks no more, although the session goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_a_place_that_nobody_looks_after_ends() {
    let server = one_member().await;
    let (lock, name) = (backend(server).await, fresh_name());
    let (holder, url) = (client(&server.url()).await, server.url());
    let guard = held(&holder, &name).await;
    let claim = patient(&name).claim().expect("a good claim");
    let other = client(&url).await;
    let waiting = {
        // The handle of a waiter that is gone.
        let lock = Arc::new(lock);
        let client = LockClient::new(lock.clone());
        let waiting = queued(&client, &holder, patient(&name), &name).await;
        (lock, client, waiting)
    };
    assert!(matches!(waiting.0.acquire(&claim, None).await, Ok(Attempt::Busy(_))));
    waiting.2.abort();
    eventually("its place is gone", LIMIT, async || claims(server, &name).len() == 1).await;
    released(guard).await;
    released(held(&other, &name).await).await;
}

/// A waiter whose first answer was lost finds its place again, though many have come after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_is_found_again_behind_which_many_wait() {
    let server = one_member().await;
    let proxy = Proxy::start(server.addr()).await;
    let (holder, waiter) =
        (client(&server.url()).await, client_through::<EtcdFaults>(&proxy).await);
    let name = fresh_name();
    let guard = held(&holder, &name).await;
    // Waits once, so that its sessions are open.
    let early = queued(&waiter, &holder, patient(&name), &name).await;
    early.abort();
    eventually("it has left", LIMIT, async || claims(server, &name).len() == 1).await;
    proxy.set(Mode::SwallowReplies);
    let found = Arc::new(AtomicBool::new(false));
    let tell = found.clone();
    let request = patient(&name).wait(Wait::Forever);
    let request = request.on_wait(move |_| tell.store(true, Ordering::Release));
    let waiting = tokio::spawn(async move { waiter.acquire(request).await });
    eventually("it has a place", LIMIT, async || claims(server, &name).len() == 2).await;
    let lock = leasehold::backend(&server.url()).await.expect("a connection");
    let behind = (0..20).map(|_| {
        let (client, request) = (client_of(lock.clone()), patient(&name));
        tokio::spawn(async move { client.acquire(request).await })
    });
    let behind: Vec<_> = behind.collect();
    eventually("many wait", LIMIT, async || claims(server, &name).len() == 22).await;
    proxy.cut();
    proxy.set(Mode::Pass);
    eventually("it is found", LIMIT, async || {
        assert!(!waiting.is_finished(), "it has given up");
        found.load(Ordering::Acquire)
    })
    .await;
    let token = guard.token();
    released(guard).await;
    let next = served(waiting).await;
    assert!(next.token() > token);
    behind.iter().for_each(|waiting| waiting.abort());
    released(next).await;
}
