//! Counts of a client, by the `metrics` facade.

#![allow(clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::time::Duration;

use lock_core::{ClientOptions, LockClient, LockRequest, MemoryBackend};
use lock_testkit::{Fault, Faulty, Operation};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};

/// The metrics of this thread: names, labels and values.
struct Counts(Snapshotter);

impl Counts {
    fn new() -> (Self, impl Drop) {
        let recorder = Box::leak(Box::new(DebuggingRecorder::new()));
        (Self(recorder.snapshotter()), metrics::set_default_local_recorder(recorder))
    }

    /// Returns the changes of each value since the last reading.
    fn read(&self) -> Vec<(String, DebugValue)> {
        let metrics = self.0.snapshot().into_vec().into_iter();
        let mut read: Vec<_> = metrics
            .map(|(key, _, _, value)| {
                let labels = key.key().labels().map(|label| label.value().to_owned());
                let labels: Vec<String> = labels.collect();
                (format!("{} {}", key.key().name(), labels.join(" ")), value)
            })
            .collect();
        read.sort_by(|one, two| one.0.cmp(&two.0));
        read
    }
}

fn value<'a>(read: &'a [(String, DebugValue)], of: &str) -> &'a DebugValue {
    let found = read.iter().find(|(name, _)| name == of);
    &found.unwrap_or_else(|| panic!("no {of} in {read:#?}")).1
}

fn count(read: &[(String, DebugValue)], of: &str) -> u64 {
    match value(read, of) {
        DebugValue::Counter(count) => *count,
        other => panic!("{of} is {other:?}"),
    }
}

/// Returns the number of values of a histogram, and the greatest.
fn histogram(read: &[(String, DebugValue)], of: &str) -> (usize, f64) {
    match value(read, of) {
        DebugValue::Histogram(values) => {
            (values.len(), values.iter().map(|value| value.0).fold(0.0, f64::max))
        }
        other => panic!("{of} is {other:?}"),
    }
}

fn client(store: &MemoryBackend) -> LockClient {
    let options = ClientOptions::new()
        .metric_group(|name| if name.as_str().starts_with("stock:") { "stock" } else { "rest" });
    LockClient::with_options(store.clone(), options)
}

/// To Prometheus, the first loss is no increase unless the series existed before.
#[tokio::test(start_paused = true)]
async fn each_counter_is_there_before_its_first_count() {
    let (counts, _recording) = Counts::new();
    let guard = client(&MemoryBackend::new()).acquire("stock:42").await.expect("a free lock");
    let read = counts.read();
    for counter in [
        "leasehold_losses_total memory stock expired",
        "leasehold_losses_total memory stock evicted",
        "leasehold_acquisitions_total memory stock error",
        "leasehold_acquisitions_total memory stock no_answer",
        "leasehold_releases_total memory stock failed",
        "leasehold_stale_tokens_total ",
    ] {
        assert_eq!(count(&read, counter), 0);
    }
    guard.release().await.expect("held to the end");
}

#[tokio::test(start_paused = true)]
async fn acquisitions_holds_renewals_and_losses_are_counted() {
    let (counts, _recording) = Counts::new();
    let locks = client(&MemoryBackend::new());
    let request = LockRequest::new("stock:1").ttl(Duration::from_secs(3));
    let guard = locks.acquire(request).await.expect("a free lock");
    assert!(locks.try_acquire("stock:1").await.expect("an answer").is_none());
    tokio::time::sleep(Duration::from_secs(5)).await;
    guard.release().await.expect("an answer");
    for name in ["stock:1", "stock:2", "other"] {
        let guard = locks.acquire(name).await.expect("a free lock");
        locks.admin().evict(name).await.expect("an answer");
        guard.lost().await;
    }

    let read = counts.read();
    assert_eq!(count(&read, "leasehold_acquisitions_total memory stock acquired"), 3);
    assert_eq!(count(&read, "leasehold_acquisitions_total memory stock busy"), 1);
    assert_eq!(count(&read, "leasehold_losses_total memory stock evicted"), 2);
    assert_eq!(count(&read, "leasehold_losses_total memory rest evicted"), 1);
    let (holds, longest) = histogram(&read, "leasehold_hold_seconds memory stock");
    assert!(holds == 3 && longest >= 5.0, "{holds} holds, the longest {longest} s");
    let (renewals, latest) = histogram(&read, "leasehold_renewal_lateness_seconds memory stock");
    assert!(renewals >= 4 && latest < 0.1, "{renewals} renewals, the latest {latest} s");
    assert!(!format!("{read:?}").contains("stock:1"), "a name is a label: {read:#?}");
}

#[tokio::test(start_paused = true)]
async fn releases_are_counted_by_what_came_of_them() {
    let (counts, _recording) = Counts::new();
    let faulty = Faulty::new(Arc::new(MemoryBackend::new()));
    let locks = LockClient::new(faulty.clone());
    let held = async || locks.acquire("a").await.expect("a free lock");
    held().await.release().await.expect("held to the end");
    drop(held().await);
    let guard = held().await;
    locks.admin().evict("a").await.expect("an answer");
    assert!(guard.release().await.is_err());
    faulty.always(Operation::Release, Fault::Forbidden);
    held().await.release().await.expect("held to the end");
    // The janitor is refused too.
    tokio::time::sleep(Duration::from_millis(1)).await;
    let read = counts.read();
    let of = |outcome| count(&read, &format!("leasehold_releases_total memory all {outcome}"));
    assert_eq!([of("released"), of("not_held"), of("failed")], [2, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn waiters_are_counted_while_they_wait() {
    let (counts, _recording) = Counts::new();
    let locks = client(&MemoryBackend::new());
    let guard = locks.acquire("stock:1").await.expect("a free lock");
    let waiting = tokio::spawn({
        let locks = locks.clone();
        async move { locks.acquire("stock:1").await }
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    let waiters = "leasehold_waiters memory stock";
    assert_eq!(value(&counts.read(), waiters), &DebugValue::Gauge(1.0.into()));
    waiting.abort();
    assert!(waiting.await.expect_err("it was aborted").is_cancelled());
    let read = counts.read();
    assert_eq!(value(&read, waiters), &DebugValue::Gauge((-1.0).into()));
    assert_eq!(count(&read, "leasehold_acquisitions_total memory stock cancelled"), 1);
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn locks_that_are_acquired_by_one_request_are_counted_each() {
    let (counts, _recording) = Counts::new();
    let locks = client(&MemoryBackend::new());
    let all = locks.acquire_all(["stock:1", "stock:2", "other"]).await.expect("free locks");
    let read = counts.read();
    assert_eq!(count(&read, "leasehold_acquisitions_total memory stock acquired"), 2);
    assert_eq!(count(&read, "leasehold_acquisitions_total memory rest acquired"), 1);
    assert_eq!(histogram(&read, "leasehold_wait_seconds memory stock acquired").0, 2);
    assert_eq!(value(&read, "leasehold_waiters memory stock"), &DebugValue::Gauge(0.0.into()));
    all.release().await.expect("held to the end");
}
