//! Places in the queues of servers that notice silent waiters.

use lock_testkit::Mode;
use lock_testkit::faults::{Harness, Server};

use super::{
    client_at, client_through, fresh_name, held, patient, queued, released, served, until_waiting,
};

/// Lets the first of two waiters be silent until its place does not count, and come back. Returns true if it is then
/// served first.
pub(crate) async fn a_silent_waiter_keeps_its_place<H: Harness>() -> bool {
    let server = H::shared().await;
    let proxy = H::proxy(server).await;
    let (holder, silent) = (client_at::<H>(server.addr()).await, client_through::<H>(&proxy).await);
    let (name, next) = (fresh_name(), client_at::<H>(server.addr()).await);
    let guard = held(&holder, &name).await;
    let silent = queued(&silent, &holder, patient(&name), &name).await;
    let request = patient(&name);
    let next = tokio::spawn(async move { next.acquire(request).await });
    until_waiting(&holder, &name, 2).await;
    proxy.set(Mode::BlackHole);
    until_waiting(&holder, &name, 1).await;
    proxy.set(Mode::Pass);
    until_waiting(&holder, &name, 2).await;
    released(guard).await;
    let mut waiters = [silent, next];
    let (first, place, _) = futures_util::future::select_all(&mut waiters).await;
    released(first.expect("no panic").expect("granted")).await;
    let [silent, next] = waiters;
    released(served(if place == 0 { next } else { silent }).await).await;
    place == 0
}
