//! Places in the queues of servers that notice silent waiters.

use lock_testkit::faults::{Harness, Server};
use lock_testkit::{Mode, eventually};

use super::{
    LIMIT, client_at, client_through, fresh_name, held, patient, queued, released, served,
    until_waiting,
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
    let request = patient(&name);
    let next = tokio::spawn(async move { next.acquire(request).await });
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
