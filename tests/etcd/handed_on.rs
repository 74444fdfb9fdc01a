//! Holds that another client continues: on which session they are, and who ends them.

use std::time::Duration;

use futures_util::future::FutureExt;
use leasehold::Lease;
use tokio::time::{sleep, timeout};

use crate::faults::lease_of;
use crate::servers::{claims, one_member};
use crate::support::{MINUTE, client, fresh_name, held, patient, queued, released, served};

const SECOND: Duration = Duration::from_secs(1);

/// An exported lease lasts for its TTL after the end of its client, and another process continues it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_is_handed_on_outlives_its_client() {
    let server = one_member().await;
    let (exporter, importer) = (client(&server.url()).await, client(&server.url()).await);
    let name = fresh_name();
    let guard = exporter.acquire(patient(&name).ttl(9 * SECOND)).await.expect("a free lock");
    let token = guard.token();
    let text = guard.detach().expect("held").export();
    exporter.shutdown().await;
    drop(exporter);
    sleep(3 * SECOND).await;
    let lease = Lease::import(&text).expect("its own text");
    let guard = importer.attach(lease).await.expect("it is still held");
    assert_eq!(guard.token(), token);
    // Past the end that the first client knew, and past the end of its session.
    assert!(timeout(11 * SECOND, guard.lost()).await.is_err(), "lost with the first client");
    released(guard).await;
}

/// A hold that was just gained by waiting has its whole TTL once it was extended, so its lease can be handed on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_was_gained_by_waiting_is_extended_and_handed_on() {
    let server = one_member().await;
    let (holder, waiter) = (client(&server.url()).await, client(&server.url()).await);
    let (name, ttl) = (fresh_name(), 8 * SECOND);
    let guard = held(&holder, &name).await;
    let waiting = queued(&waiter, &holder, patient(&name).ttl(ttl), &name).await;
    released(guard).await;
    let guard = served(waiting).await;
    guard.extend(ttl).await.expect("held");
    let text = guard.detach().expect("held").export();
    sleep(4 * SECOND).await;
    let lease = Lease::import(&text).expect("its own text");
    released(holder.attach(lease).await.expect("it is still held")).await;
}

/// The client that handed a lease on stays alive, and does not end the lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_ends_no_lease_that_it_handed_on() {
    let server = one_member().await;
    let (exporter, importer) = (client(&server.url()).await, client(&server.url()).await);
    let name = fresh_name();
    let request = patient(&name).ttl(9 * SECOND);
    let lease = exporter.acquire(request).await.expect("a free lock").detach().expect("held");
    let text = lease.export();
    let guard = importer.attach(Lease::import(&text).expect("its own text")).await.expect("held");
    assert!(timeout(11 * SECOND, guard.lost()).await.is_err(), "ended by the first client");
    released(guard).await;
}

/// so the first client ends no hold of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s5_a_lease_on_a_longer_session_is_handed_on() {
    let server = one_member().await;
    let (holder, exporter) = (client(&server.url()).await, client(&server.url()).await);
    let (importer, name) = (client(&server.url()).await, fresh_name());
    let guard = held(&holder, &name).await;
    let first = queued(&exporter, &holder, patient(&name).ttl(14 * SECOND), &name).await;
    let session = lease_of(server, &claims(server, &name).pop().expect("a place"));
    let (next, request) = (exporter.clone(), patient(&name).ttl(6 * SECOND));
    let mut next = Box::pin(async move { next.acquire(request).await });
    assert!((&mut next).now_or_never().is_none(), "it waits behind the first");
    first.abort();
    let waiting = tokio::spawn(next);
    released(guard).await;
    let guard = served(waiting).await;
    guard.extend(6 * SECOND).await.expect("held");
    let key = claims(server, &name).pop().expect("a hold");
    assert_eq!(lease_of(server, &key), session, "the place was passed on");
    let text = guard.detach().expect("held").export();
    let guard = importer.attach(Lease::import(&text).expect("its own text")).await.expect("held");
    assert_ne!(lease_of(server, &key), session);
    // Past the end of the hold as the first client knows it.
    assert!(timeout(20 * SECOND, guard.lost()).await.is_err(), "ended by the first client");
    released(guard).await;
}

/// C41: a hold that keeps others out for a span does so too after another client had it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c41_a_span_outlasts_an_attachment() {
    let server = one_member().await;
    let (one, other) = (client(&server.url()).await, client(&server.url()).await);
    let name = fresh_name();
    let begun = one.once(&name).at_least(MINUTE).ttl(6 * SECOND).begin().await;
    let text = begun.expect("an answer").ran().expect("free").detach().expect("held").export();
    let guard = other.attach(Lease::import(&text).expect("its own text")).await.expect("held");
    let _ = guard.detach().expect("held");
    sleep(10 * SECOND).await;
    assert_eq!(claims(server, &name).len(), 1, "others are let in early");
    other.admin().evict(&name).await.expect("an answer");
}
