//! C41: a run once whose process ends within the span.

use std::time::{Duration, Instant};

use leasehold::{LockClient, LockGuard, OnceOutcome};
use tokio::time::sleep;

use super::{Fixture, NAME, child, client, ttl};

const TTL: Duration = Duration::from_secs(2);

/// Begins a run that keeps others out for four of its TTLs, and continues until it is killed.
pub(super) async fn run() {
    begin(&client().await).await.lost().await;
}

/// Begins such a run, ends it at once, shuts its client down, and exits.
pub(super) async fn run_shortly() {
    let client = client().await;
    begin(&client).await.release().await.expect("held to the end");
    client.shutdown().await;
}

async fn begin(client: &LockClient) -> LockGuard {
    let begun = client.once(NAME).ttl(ttl()).at_least(ttl() * 4).begin().await;
    let guard = begun.expect("an answer").ran().expect("nobody else runs it");
    child::say(&guard.token().to_string());
    guard
}

/// C41: others are kept out for the span from the start of the run. The death of its process does not matter, even
/// after many renewals.
async fn a_killed_run_keeps_others_out_for_its_span(fixture: Fixture) {
    let began = Instant::now();
    let mut runner = fixture.spawn("runner", TTL);
    let first: u64 = runner.line().await.parse().expect("a token");
    sleep(TTL * 3).await;
    runner.kill().await;
    assert_kept_out(&fixture, began, first, TTL).await;
}

/// C41: others are kept out for the span after a run that is over, though its process ended.
async fn a_short_run_keeps_others_out_for_its_span(fixture: Fixture) {
    let began = Instant::now();
    let mut runner = fixture.spawn("short runner", TTL);
    let first: u64 = runner.line().await.parse().expect("a token");
    assert!(runner.ended().await.success());
    assert_kept_out(&fixture, began, first, TTL * 4).await;
}

/// Asserts that others are kept out for the span, and not for much longer than its rest from now on.
async fn assert_kept_out(fixture: &Fixture, began: Instant, first: u64, rest: Duration) {
    let ended = Instant::now();
    let locks = leasehold::connect(&fixture.url).await.expect("a connection");
    let next = loop {
        match locks.once(NAME).ttl(TTL).begin().await.expect("an answer") {
            OnceOutcome::Ran(guard) => break guard,
            _ => sleep(Duration::from_millis(50)).await,
        }
    };
    let (kept, waited) = (began.elapsed(), ended.elapsed());
    assert!(kept >= TTL * 4, "others were kept out for {kept:?}");
    // On ZooKeeper a session begins with the last request: it is a third longer than the span and one try, which are
    // rounded up to 15 s.
    let is_by_session = fixture.url.starts_with("zookeeper");
    let rest = if is_by_session { Duration::from_secs(20) } else { rest };
    assert!(waited < fixture.bound(rest), "others were kept out for {waited:?} after the process");
    assert!(next.token().get() > first);
    next.release().await.expect("held to the end");
}

on_each_store!(c41_a_killed_run_keeps_others_out_for_its_span: a_killed_run_keeps_others_out_for_its_span);
on_each_store!(c41_a_short_run_keeps_others_out_for_its_span: a_short_run_keeps_others_out_for_its_span);
