//! C42: records of runs.

use std::time::Duration;

use lock_core::backend::{Claim, Record, Recording};
use lock_core::{FencingToken, Lease, LockClient, LockError, LockName, Occurrence, OnceOutcome};
use tokio::time::{Instant, sleep};

use super::harness::Harness;
use super::once::{assert_kept, running_once};
use super::steps::{claim, client, eventually, faulty_client, fresh_name, granted, until_expired};
use crate::{Expect, Fault, Operation};

/// C42: a successful run is done for every client; a failed one is not.
pub async fn c42_a_run_that_ended_well_is_done(harness: &dyn Harness) {
    let Some(_) = running_once(harness).await else { return };
    let (one, other, name) = (client(harness).await, client(harness).await, fresh_name());
    let once = |client: &LockClient, occurrence: &str| {
        client.once(name.as_str()).ttl(harness.ttl() * 3).occurrence(occurrence)
    };
    let failed = once(&one, "monday").try_run(async |_| Err::<(), _>("a failure")).await;
    let failed = failed.expect("an answer").ran().expect("a free lock");
    failed.hold.expect("held to the end");
    assert_eq!(failed.value, Err("a failure"));
    let ran = once(&other, "monday").run(async |held| held.token()).await.expect("an answer");
    let ran = ran.ran().expect("a run that failed is not to be recorded");
    let token = ran.into_value().expect("held to the end, and recorded");
    for client in [&one, &other] {
        let again = once(client, "monday").run(async |_| panic!("it ran twice")).await;
        let OnceOutcome::Done(by) = again.expect("an answer") else {
            panic!("a run that ended well is to be recorded");
        };
        assert_eq!(by, token, "a record is to tell the token of its run");
    }
    let next = once(&one, "tuesday").run(async |_| ()).await.expect("an answer");
    assert!(next.ran().is_some(), "another occurrence is to run");
}

/// C42: a holder that lost the lock cannot record, whoever has held it since.
pub async fn c42_a_holder_that_lost_the_lock_cannot_record(harness: &dyn Harness) {
    let Some(backend) = running_once(harness).await else { return };
    let name = fresh_name();
    let (lost, next) = (claim(&name, harness.long_ttl()), claim(&name, harness.long_ttl()));
    let token = granted(&*backend, &lost).await.token;
    let try_to_record = async |what: &str| {
        let recording =
            backend.expect_run_records().record(&record(&lost, token, "x", harness.limit())).await;
        let told = format!("a holder is not to record {what}");
        assert_eq!(recording.expect("an answer"), Recording::Lost, "{told}");
        let recorded = backend
            .expect_run_records()
            .recorded(&name, &occurrence("x"))
            .await
            .expect("an answer");
        assert_eq!(recorded, None, "{told}");
    };
    harness.evict(&name).await;
    until_expired(harness, &*backend, &name).await;
    try_to_record("after its eviction").await;
    granted(&*backend, &next).await;
    try_to_record("while another holds the lock").await;
    backend.release(&name, next.owner).await.expect("an answer");
    granted(&*backend, &lost).await;
    try_to_record("under the token of an earlier hold").await;
    backend.release(&name, lost.owner).await.expect("an answer");
    try_to_record("after its release").await;
}

/// C42: a record lasts for its time, and no longer.
pub async fn c42_a_record_ends(harness: &dyn Harness) {
    let Some(backend) = running_once(harness).await else { return };
    let held = claim(&fresh_name(), harness.long_ttl());
    let token = granted(&*backend, &held).await.token;
    let (asked, day, span) = (Instant::now(), occurrence("day"), harness.ttl() * 2);
    for (what, span) in [("day", span), ("week", harness.limit() * 60)] {
        let recording =
            backend.expect_run_records().record(&record(&held, token, what, span)).await;
        assert_eq!(recording.expect("an answer"), Recording::Recorded, "it is held");
    }
    backend.release(&held.name, held.owner).await.expect("an answer");
    let seen = backend.expect_run_records().recorded(&held.name, &day).await.expect("an answer");
    assert!(seen == Some(token) || asked.elapsed() >= span, "a record is to tell its token");
    eventually(harness, "a record ends", async || {
        let seen = backend.expect_run_records().recorded(&held.name, &day).await;
        seen.is_ok_and(|seen| seen.is_none())
    })
    .await;
    assert_kept(asked.elapsed(), span);
    let week = backend
        .expect_run_records()
        .recorded(&held.name, &occurrence("week"))
        .await
        .expect("an answer");
    assert_eq!(week, Some(token), "a record is to last when another ends");
}

/// C2, C42: names and occurrences are data, and different pairs never collide.
pub async fn c42_occurrences_are_data(harness: &dyn Harness) {
    const PARTS: [&str; 12] =
        ["a", "a:b", "b:a", "a/b", "b", ":", "/", "%2F", "{a}", "*", "A", "a "];
    let Some(backend) = running_once(harness).await else { return };
    let tag = fresh_name();
    let named = |part: &str| LockName::new(format!("{}{part}", tag.as_str())).expect("a name");
    let mut expected: Vec<(LockName, Occurrence, FencingToken)> = Vec::new();
    for part in PARTS {
        let held = claim(&named(part), harness.long_ttl());
        let token = granted(&*backend, &held).await.token;
        // Each lock records one occurrence, which no other lock records.
        let recording =
            backend.expect_run_records().record(&record(&held, token, part, harness.limit())).await;
        assert_eq!(recording.expect("an answer"), Recording::Recorded, "it is held");
        expected.push((held.name.clone(), occurrence(part), token));
        backend.release(&held.name, held.owner).await.expect("an answer");
    }
    for (name, _, _) in &expected {
        for (recorded_by, occurrence, token) in &expected {
            let seen =
                backend.expect_run_records().recorded(name, occurrence).await.expect("an answer");
            let own = (name == recorded_by).then_some(*token);
            assert_eq!(seen, own, "{occurrence:?} of {name:?} is to be a record of its own");
        }
    }
}

/// C42: an operator sees the records of a lock, and removes one: its occurrence runs again.
pub async fn c42_a_run_that_is_forgotten_runs_again(harness: &dyn Harness) {
    let Some(_) = running_once(harness).await else { return };
    let (client, name) = (client(harness).await, fresh_name());
    let run = async |of: &str| {
        let once = client.once(name.as_str()).ttl(harness.ttl() * 3).occurrence(of);
        let ran = once.run(async |held| held.token()).await.expect("an answer").ran();
        ran.map(|finished| finished.into_value().expect("held to the end, and recorded"))
    };
    let seen = async || {
        let runs = client.admin().runs(&name).await.expect("an answer");
        runs.into_iter().map(|run| (run.occurrence.to_string(), run.token)).collect::<Vec<_>>()
    };
    let forget = async |of: &str| client.admin().forget(&name, of).await.expect("an answer");
    assert_eq!(seen().await, [], "nothing is recorded beside a new lock");
    // An occurrence is data.
    let (one, other) = ("a/b*%:{c}", "a/b%2A");
    let (first, second) = (run(one).await.expect("a free lock"), run(other).await.expect("free"));
    let both = [(one.to_owned(), first), (other.to_owned(), second)];
    assert_eq!(seen().await, both, "all records of a lock are to be shown, in the order of tokens");
    assert!(!forget("a/b").await, "what was never recorded is not to be forgotten");
    assert!(forget(one).await, "what is recorded is to be forgotten");
    assert_eq!(seen().await, both[1..], "one record alone is to be forgotten");
    let again = run(one).await.expect("a run that is forgotten is to run again");
    assert!(again > second && run(other).await.is_none(), "the other is to be done still");
}

/// C42: an outage longer than a request time-out loses no record while the lock is held.
pub async fn c42_a_server_that_is_back_in_time_records(harness: &dyn Harness) {
    let Some(_) = running_once(harness).await else { return };
    for fault in [Fault::RequestLost, Fault::ReplyLost] {
        let ((client, faulty), name) = (faulty_client(harness).await, fresh_name());
        let once = || client.once(name.as_str()).ttl(harness.long_ttl()).occurrence("x");
        faulty.always(Operation::Record, fault);
        let (ran, ()) = tokio::join!(once().run(async |held| held.token()), async {
            sleep(harness.request_timeout() * 2).await;
            faulty.heal();
        });
        let ran = ran.expect("an answer").ran().expect("a free lock");
        let token = ran.into_value().expect("a run is to be recorded while its lock is held");
        let again = once().run(async |_| panic!("it ran twice")).await.expect("an answer");
        assert!(matches!(again, OnceOutcome::Done(by) if by == token), "{again:?}");
    }
}

/// C42: a run that cannot be recorded keeps its value, and reports the failure.
pub async fn c42_a_silent_server_is_no_error_of_the_run(harness: &dyn Harness) {
    let Some(_) = running_once(harness).await else { return };
    let ((client, faulty), name) = (faulty_client(harness).await, fresh_name());
    let run = client.once(name.as_str()).ttl(harness.ttl() * 2).occurrence("x");
    faulty.always(Operation::Record, Fault::RequestLost);
    let ran = run.run(async |_| 42).await.expect("an answer").ran().expect("a free lock");
    assert_eq!(ran.value, 42);
    let is_told = matches!(ran.hold, Err(LockError::Unrecorded { .. }));
    assert!(is_told, "a run that is not recorded is to be told: {:?}", ran.hold);
}

/// Returns the record of the hold that `claim` was granted under `token`.
pub(super) fn record(claim: &Claim, token: FencingToken, of: &str, remember: Duration) -> Record {
    let (owner, ttl) = (claim.owner.expose(), claim.ttl.as_millis());
    let text = format!("lease1:{owner}:{token}:{ttl}:{}", claim.name.as_str());
    let lease = Lease::import(&text).expect("a lease");
    Record::new(&lease, occurrence(of), remember).expect("a good span")
}

fn occurrence(text: &str) -> Occurrence {
    Occurrence::new(text).expect("a good occurrence")
}
