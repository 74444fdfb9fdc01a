//! C44: the items of a watch.

use crate::Expect;
use std::time::Duration;

use tokio::time::timeout;

use super::harness::Harness;
use super::steps::{claim, client, eventually, fresh_name, granted, patient};
use lock_core::{FencingToken, LockName, LockState, LockWatch};

/// Interval of a watch's looks here.
const POLL: Duration = Duration::from_millis(50);

/// C44: a watch shows a lock at once, and then the actions of others on it.
pub async fn c44_a_watch_shows_grants_releases_and_evictions(harness: &dyn Harness) {
    let name = fresh_name();
    let watch = client(harness).await.admin().watch(name.as_str()).poll_every(POLL);
    shows_each_step(harness, &name, watch).await;
}

/// C44: if a store signals changes, they are shown long before the next poll.
pub async fn c44_what_is_told_is_shown_between_two_polls(harness: &dyn Harness) {
    let name = fresh_name();
    if harness.tells_changes() && harness.connect().await.expect_admin().changes(&name).is_some() {
        let watch = client(harness).await.admin().watch(name.as_str());
        shows_each_step(harness, &name, watch.poll_every(harness.limit() * 10)).await;
    }
}

/// C44: the expiry of a hold is a change. A renewal is none.
pub async fn c44_a_watch_shows_the_end_of_a_ttl_and_no_renewal(harness: &dyn Harness) {
    let (client, backend, name) = (client(harness).await, harness.connect().await, fresh_name());
    let mut watch = client.admin().watch(name.as_str()).poll_every(POLL);
    let guard = client.acquire(patient(&name, harness.ttl() * 3)).await.expect("a free lock");
    shows(harness, &mut watch, "a grant", is_held_under(guard.token())).await;
    let renewed = async {
        for _ in 0..2 {
            let before = guard.deadline();
            eventually(harness, "it is renewed", async || guard.deadline() != before).await;
        }
    };
    tokio::select! {
        () = renewed => {}
        shown = watch.next() => panic!("a renewal is not to be shown as a change: {shown:?}"),
    }
    guard.release().await.expect("held to the end");
    let dead = claim(&name, harness.ttl());
    let token = granted(&backend, &dead).await.token;
    shows(harness, &mut watch, "a grant that nobody renews", is_held_under(token)).await;
    shows(harness, &mut watch, "the end of a TTL", is_free).await;
}

/// Takes each step once the watch has shown the one before.
async fn shows_each_step(harness: &dyn Harness, name: &LockName, mut watch: LockWatch) {
    let (client, watch, ttl) = (client(harness).await, &mut watch, harness.limit() * 20);
    shows(harness, watch, "a lock that is free, at once", is_free).await;
    let guard = client.acquire(patient(name, ttl)).await.expect("a free lock");
    shows(harness, watch, "a grant", is_held_under(guard.token())).await;
    guard.release().await.expect("held to the end");
    shows(harness, watch, "a release", is_free).await;
    let guard = client.acquire(patient(name, ttl)).await.expect("a free lock");
    shows(harness, watch, "a further grant", is_held_under(guard.token())).await;
    harness.evict(name).await;
    shows(harness, watch, "an eviction", is_free).await;
}

/// Waits for the watch to show the expected state. It may show waiters before.
async fn shows(
    harness: &dyn Harness,
    watch: &mut LockWatch,
    what: &str,
    expected: impl Fn(&LockState) -> bool,
) {
    let shown = async { while !expected(&watch.next().await.expect("the watch goes on")) {} };
    let shown = timeout(harness.limit(), shown).await;
    assert!(shown.is_ok(), "a watch is to show {what}");
}

fn is_held_under(token: FencingToken) -> impl Fn(&LockState) -> bool {
    move |state| state.holder().and_then(|holder| holder.token) == Some(token)
}

fn is_free(state: &LockState) -> bool {
    state.holder().is_none()
}
