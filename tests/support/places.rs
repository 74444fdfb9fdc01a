//! Places in the queues of servers that notice silent waiters.

use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use leasehold::core::backend::WAITER_LIVENESS;
use leasehold::{LockClient, LockError, Wait};
use lock_testkit::faults::{Harness, Server};
use lock_testkit::{Mode, Proxy, eventually};
use tokio::time::sleep;

use super::{
    LIMIT, SLACK, acquiring, client, client_at, client_through, fresh_name, held, patient, queued,
    released, served, until_waiting,
};

/// C27: the first of two waiters is silent until its place does not count, and listens again before its turn. It is
/// served first. `cut` ends all connections on which waiters listen.
pub(crate) async fn a_silent_waiter_keeps_its_place<H: Harness>(cut: impl Fn(&H::Server)) {
    let server = &H::start().await;
    let proxy = H::proxy(server).await;
    let (holder, silent) = (client_at::<H>(server.addr()).await, client_through::<H>(&proxy).await);
    let (name, next) = (fresh_name(), client_at::<H>(server.addr()).await);
    let guard = held(&holder, &name).await;
    let silent = queued(&silent, &holder, patient(&name), &name).await;
    let next = acquiring(&next, patient(&name));
    until_waiting(&holder, &name, 2).await;
    let until_listening = async |waiters| {
        eventually("they listen", LIMIT, async || H::pushes(server).await == waiters).await;
    };
    proxy.set(Mode::BlackHole);
    until_waiting(&holder, &name, 1).await;
    // The server does not notice by itself that the silent waiter's connection is gone.
    cut(server);
    until_listening(1).await;
    proxy.set(Mode::Pass);
    until_waiting(&holder, &name, 2).await;
    until_listening(2).await;
    released(guard).await;
    released(served(silent).await).await;
    released(served(next).await).await;
}

/// C28: a waiter that has died, whose connections go through `proxy`, keeps tries from a free lock for its bound, and
/// is not told to be its holder. If the lock has several `permits`, one of them is free, and others are held.
pub(crate) async fn a_dead_waiter_keeps_tries_out_for_its_bound(
    url: &str,
    silent: &LockClient,
    proxy: &Proxy,
    permits: u16,
) {
    let (holder, other, name) = (client(url).await, client(url).await, fresh_name());
    let request = || match permits {
        1 => patient(&name),
        several => patient(&name).permits(1, several),
    };
    let holds = (0..permits).map(|_| holder.acquire(request()));
    let mut guards = try_join_all(holds).await.expect("a free lock");
    let waiting = queued(silent, &holder, request().label("the dead"), &name).await;
    proxy.set(Mode::BlackHole);
    released(guards.remove(0)).await;
    let start = Instant::now();
    let guard = loop {
        match other.acquire(request().wait(Wait::Never)).await {
            Ok(guard) => break guard,
            Err(LockError::NotAcquired { contention, .. }) => {
                assert!(contention.is_untaken, "{contention}");
                assert_eq!(contention.holder.is_some(), permits > 1, "{contention}");
            }
            Err(error) => panic!("{error}"),
        }
        sleep(Duration::from_millis(300)).await;
    };
    let took = start.elapsed();
    assert!(took < WAITER_LIVENESS + SLACK, "{took:?}");
    waiting.abort();
    released(guard).await;
}
