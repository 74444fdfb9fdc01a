//! R2: a backend must not block the threads of its program.

use crate::Expect;
use std::collections::BTreeMap;
use std::fs;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::Attempt;
use lock_core::{DistributedLock, LockClient, Whom};
use tokio::runtime::Builder;
use tokio::time::{Instant, timeout};

use super::harness::Harness;
use super::steps::{claim, client, fresh_name, granted, patient, renewal};

/// Longest time for which a call may keep the thread: far less than a disk or a network takes.
const KEPT_AT_MOST: Duration = Duration::from_millis(10);

/// Most tries of each call, until it was quick once. A blocking driver is never quick; a busy machine may make any
/// single call slow.
const TRIES: usize = 50;

/// R2: on a runtime with a single thread, no call of a client blocks the other tasks.
pub async fn r2_no_call_blocks_the_runtime(harness: &dyn Harness) {
    let clients = [client(harness).await, client(harness).await];
    let (ttl, bound) = (harness.ttl() * 10, harness.moment());
    let thread = std::thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let mut least = Duration::MAX;
            for _ in 0..TRIES {
                least = least.min(longest_gap(hand_over(&clients, ttl)).await);
                if least < bound {
                    break;
                }
            }
            least
        })
    });
    let ended = tokio::task::spawn_blocking(|| thread.join()).await.expect("no panic");
    let least = ended.expect("no panic");
    assert!(least < bound, "a call is not to keep the thread from other tasks: {least:?}");
}

/// Acquires a lock, inspects it, extends it, and hands it over to the other client.
async fn hand_over([one, two]: &[LockClient; 2], ttl: Duration) {
    let name = fresh_name();
    let guard = one.acquire(patient(&name, ttl)).await.expect("a free lock");
    let tried = two.try_acquire(&name).await.expect("an answer");
    assert!(tried.is_none(), "a lock that is held is to be granted to nobody else");
    guard.extend(ttl).await.expect("held");
    two.admin().inspect(&name).await.expect("an answer");
    let (next, _) = tokio::join!(two.acquire(patient(&name, ttl)), guard.release());
    drop(next.expect("its turn comes"));
}

/// Returns the longest time between two beats of a task beside `work`.
async fn longest_gap(work: impl Future<Output = ()>) -> Duration {
    let (mut work, mut longest) = (pin!(work), Duration::ZERO);
    loop {
        let beat = Instant::now();
        let ended = timeout(Duration::from_millis(5), &mut work).await.is_ok();
        longest = longest.max(beat.elapsed());
        if ended {
            return longest;
        }
    }
}

/// R2: no call blocks its thread for as long as a disk or a network takes: a blocking driver needs its own threads.
pub async fn r2_no_call_keeps_the_thread(harness: &dyn Harness) {
    let (backend, ttl) = (harness.connect().await, harness.ttl() * 10);
    let thread = std::thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let mut kept = Kept::default();
            for _ in 0..TRIES {
                kept.by_all_calls(&backend, ttl).await;
                if kept.least.values().all(|kept| *kept < KEPT_AT_MOST) {
                    break;
                }
            }
            kept.least
        })
    });
    let least = tokio::task::spawn_blocking(|| thread.join()).await.expect("no panic");
    for (call, kept) in least.expect("no panic") {
        assert!(
            kept < KEPT_AT_MOST,
            "{call} is to leave the thread to other tasks while it waits: it kept it for {kept:?}"
        );
    }
}

/// Time for which each call blocked its thread: the least of all its tries.
#[derive(Default)]
struct Kept {
    least: BTreeMap<&'static str, Duration>,
}

impl Kept {
    /// Tries every call of a backend once.
    async fn by_all_calls(&mut self, backend: &Arc<dyn DistributedLock>, ttl: Duration) {
        let name = fresh_name();
        let (own, other) = (claim(&name, ttl), claim(&name, ttl));
        let grant = self.by("acquire", granted(&**backend, &own)).await;
        let busy = self.by("acquire of a busy lock", backend.acquire(&other, None)).await;
        let is_busy = matches!(busy, Ok(Attempt::Busy(_)));
        assert!(is_busy, "a lock that is held is to be granted to nobody else: {busy:?}");
        self.by("extend", backend.extend(&[renewal(&own, grant.token)])).await;
        self.by("inspect", backend.expect_admin().inspect(&name)).await.expect("an answer");
        self.by("list", backend.expect_admin().list(name.as_str(), 9)).await.expect("an answer");
        self.by("evict", backend.expect_admin().evict(&name, &Whom::All)).await.expect("an answer");
        self.by("release", backend.release(&name, own.owner)).await.expect("an answer");
        self.by("withdraw", backend.withdraw(&name, &[other.owner])).await.expect("an answer");
        self.by("doctor", backend.expect_admin().doctor("")).await.expect("an answer");
    }

    async fn by<T>(&mut self, call: &'static str, request: impl Future<Output = T>) -> T {
        let (answer, kept) = longest_turn(request).await;
        let least = self.least.entry(call).or_insert(kept);
        *least = kept.min(*least);
        answer
    }
}

/// Returns the longest time for which `request` blocked the thread. Time in which the thread only waited for a processor
/// does not count.
async fn longest_turn<T>(request: impl Future<Output = T>) -> (T, Duration) {
    let (mut request, mut longest) = (pin!(request), Duration::ZERO);
    let answer = poll_fn(|context| {
        let (begun, slept, waited) = (Instant::now(), sleeps(), waited_for_a_processor());
        let answer = request.as_mut().poll(context);
        // First, so that nothing is subtracted that the span lacks.
        let waited = waited_for_a_processor().saturating_sub(waited);
        // A call that blocks sleeps each time, and then nothing is subtracted.
        let waited = if sleeps() == slept { waited } else { Duration::ZERO };
        longest = longest.max(begun.elapsed().saturating_sub(waited));
        answer
    });
    (answer.await, longest)
}

/// Returns the time for which this thread was ready to run while others ran, since its start.
fn waited_for_a_processor() -> Duration {
    Duration::from_nanos(counted("schedstat", |text| text.split_whitespace().nth(1)))
}

/// Returns how often this thread slept, since its start.
fn sleeps() -> u64 {
    let start = "voluntary_ctxt_switches:";
    counted("status", |text| text.lines().find_map(|line| line.strip_prefix(start)))
}

/// Returns a number that the system counts for this thread; zero if it does not.
fn counted(file: &str, number: impl Fn(&str) -> Option<&str>) -> u64 {
    let text = fs::read_to_string(format!("/proc/thread-self/{file}")).unwrap_or_default();
    number(&text).and_then(|number| number.trim().parse().ok()).unwrap_or_default()
}
