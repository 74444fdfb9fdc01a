//! C41: a run once whose process is killed.

use std::time::{Duration, Instant};

use leasehold::OnceOutcome;
use tokio::time::sleep;

use super::{Fixture, NAME, child, client, ttl};

/// Begins a run that keeps others out for four of its TTLs, and continues until it is killed.
pub(super) async fn run() {
    let begun = client().await.once(NAME).ttl(ttl()).at_least(ttl() * 4).begin().await;
    let guard = begun.expect("an answer").ran().expect("nobody else runs it");
    child::say(&guard.token().to_string());
    guard.lost().await;
}

/// C41: others are kept out for the span from the start of the run. The death of its process does not matter, even
/// after many renewals.
async fn a_killed_run_keeps_others_out_for_its_span(fixture: Fixture) {
    let (ttl, began) = (Duration::from_secs(2), Instant::now());
    let mut runner = fixture.spawn("runner", ttl);
    let first: u64 = runner.line().await.parse().expect("a token");
    sleep(ttl * 3).await;
    runner.kill().await;
    let killed = Instant::now();
    let locks = leasehold::connect(&fixture.url).await.expect("a connection");
    let next = loop {
        match locks.once(NAME).ttl(ttl).begin().await.expect("an answer") {
            OnceOutcome::Ran(guard) => break guard,
            _ => sleep(Duration::from_millis(50)).await,
        }
    };
    let (kept, waited) = (began.elapsed(), killed.elapsed());
    assert!(kept >= ttl * 4, "others were kept out for {kept:?}");
    // Less than a TTL of the span is left. On ZooKeeper a session begins with the last request: it is a third longer than
    // the span and one try, which are rounded up to 15 s.
    let is_by_session = fixture.url.starts_with("zookeeper");
    let left = if is_by_session { Duration::from_secs(20) } else { ttl };
    assert!(
        waited < fixture.bound(left),
        "others were kept out for {waited:?} after the run was killed"
    );
    assert!(next.token().get() > first);
    next.release().await.expect("held to the end");
}

on_each_store!(c41_a_killed_run_keeps_others_out_for_its_span: a_killed_run_keeps_others_out_for_its_span);
