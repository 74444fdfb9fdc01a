//! Cost of renewing, and the times at which the renewer looks at each hold.

#![allow(clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use lock_core::backend::{
    Attempt, Claim, DistributedLockExt, Extension, Release, Renewal, WaiterHandle, async_trait,
};
use lock_core::testing::FakeClock;
use lock_core::{
    BackendError, Capabilities, ClientOptions, Clock, DistributedLock, LockClient, LockGuard,
    LockName, LockRequest, MemoryBackend, Moment, OwnerId, Renewals, SystemClock,
};
use lock_testkit::{Fault, Faulty, Operation, eventually};
use tokio::runtime::Builder;
use tokio::sync::Mutex;
use tokio::task::yield_now;
use tokio::time::{advance, sleep};

const LIMIT: Duration = Duration::from_secs(30);

async fn held(client: &LockClient, name: &str, ttl: Duration) -> LockGuard {
    client.acquire(LockRequest::new(name).ttl(ttl)).await.expect("a free lock")
}

/// Counts the readings of the clock.
#[derive(Debug, Default)]
struct CountingClock(AtomicUsize);

#[async_trait]
impl Clock for CountingClock {
    fn now(&self) -> Moment {
        self.0.fetch_add(1, Ordering::Relaxed);
        SystemClock.now()
    }

    async fn sleep_until(&self, deadline: Moment) {
        SystemClock.sleep_until(deadline).await;
    }
}

/// R1: a client that holds nothing sleeps, before its first lock and after its last.
#[tokio::test(start_paused = true)]
async fn r1_an_idle_client_sleeps() {
    let clock = Arc::new(CountingClock::default());
    let options = ClientOptions::new().clock(clock.clone());
    let client = LockClient::with_options(MemoryBackend::new(), options);
    for _ in 0..3 {
        client.acquire("a").await.expect("a free lock").release().await.expect("an answer");
        // The renewer notices at the time of the next renewal that nothing is held any more.
        sleep(Duration::from_secs(30)).await;
        let looked = clock.0.load(Ordering::Relaxed);
        advance(Duration::from_secs(3600)).await;
        sleep(Duration::from_secs(1)).await;
        assert_eq!(clock.0.load(Ordering::Relaxed), looked, "it woke though it holds nothing");
    }
}

/// R1: a client that holds a lock wakes for its renewals, and for nothing else.
#[test]
fn r1_a_client_that_holds_a_lock_wakes_for_its_renewals_alone() {
    let parks = Arc::new(AtomicUsize::new(0));
    let counted = parks.clone();
    let runtime = Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .on_thread_park(move || _ = counted.fetch_add(1, Ordering::Relaxed))
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        const PERIODS: u32 = 360;
        let client = LockClient::new(MemoryBackend::new());
        let guard = held(&client, "a", Duration::from_secs(30)).await;
        let before = parks.load(Ordering::Relaxed);
        sleep(Duration::from_secs(10) * PERIODS).await;
        let woke = parks.load(Ordering::Relaxed) - before;
        assert!(guard.is_held(), "{guard:?}");
        // Tokio wakes once for a new timer that is the next to fire, and up to three times on the way to one of
        // 10 s. With a step of 50 ms the count was 200.
        assert!(woke <= 5 * PERIODS as usize, "it woke {woke} times in {PERIODS} periods");
    });
}

/// C12: a client that was idle renews its next hold in time.
#[tokio::test(start_paused = true)]
async fn c12_a_client_that_was_idle_renews_its_next_hold() {
    let client = LockClient::new(MemoryBackend::new());
    for _ in 0..3 {
        let guard = client.acquire("a").await.expect("a free lock");
        sleep(Duration::from_secs(300)).await;
        assert!(guard.is_held(), "{guard:?}");
        guard.release().await.expect("an answer");
        sleep(Duration::from_secs(300)).await;
    }
}

/// C6: a suspend of the machine counts, for holds acquired before and after it.
#[tokio::test]
async fn c06_a_hold_is_renewed_after_a_suspend() {
    let clock = Arc::new(FakeClock::new());
    let options = ClientOptions::new().clock(clock.clone());
    let client = LockClient::with_options(MemoryBackend::new(), options);
    let minute = Duration::from_secs(60);
    let before = held(&client, "before", minute).await;
    for round in 0..3 {
        let first = before.deadline();
        // The hold is due after 20 s; the clock that stops in suspend has not moved.
        clock.suspend(Duration::from_secs(30));
        let after = held(&client, &format!("after-{round}"), minute).await;
        eventually("it is renewed", LIMIT, async || before.deadline() != first).await;
        assert!(
            before.is_held() && after.is_held(),
            "lost in a suspend that was shorter than the TTL"
        );
    }
}

/// C12: holds that are not due cost nothing while another hold is renewed repeatedly.
#[tokio::test(start_paused = true)]
async fn c12_a_hold_costs_no_step_of_the_others() {
    const HOLDS: usize = 2000;
    let clock = Arc::new(CountingClock::default());
    let options = ClientOptions::new().clock(clock.clone());
    let client = LockClient::with_options(MemoryBackend::new(), options);
    let day = Duration::from_secs(24 * 60 * 60);
    let names: Vec<String> = (0..HOLDS).map(|i| format!("long-{i}")).collect();
    let _long = join_all(names.iter().map(|name| held(&client, name, day))).await;
    let short = held(&client, "short", Duration::from_secs(3)).await;
    let looked = clock.0.load(Ordering::Relaxed);
    let mut renewals = 0;
    while renewals < 5 {
        let before = short.deadline();
        eventually("it is renewed", LIMIT, async || short.deadline() != before).await;
        renewals += 1;
    }
    // A step reads the clock once for each hold that it checks.
    let looked = clock.0.load(Ordering::Relaxed) - looked;
    assert!(looked < HOLDS, "the clock was read {looked} times for {renewals} renewals");
}

/// C12: many holds are renewed in one request, and its answer does not block the runtime's other tasks.
#[tokio::test(start_paused = true)]
async fn c12_others_go_on_while_a_batch_is_renewed() {
    const HOLDS: usize = 100;
    let client = LockClient::new(MemoryBackend::new());
    let names: Vec<String> = (0..HOLDS).map(|i| format!("held-{i}")).collect();
    let ttl = Duration::from_secs(30);
    let guards = join_all(names.iter().map(|name| held(&client, name, ttl))).await;
    let before: Vec<_> = guards.iter().map(LockGuard::deadline).collect();
    let renewed =
        || guards.iter().zip(&before).filter(|(hold, at)| hold.deadline() != **at).count();
    let (mut seen, mut at_a_stretch) = (0, 0);
    while seen < HOLDS {
        match seen {
            // The hold that is due first includes the others in its request.
            0 => advance(Duration::from_millis(10)).await,
            _ => yield_now().await,
        }
        let more = renewed() - seen;
        (seen, at_a_stretch) = (seen + more, at_a_stretch.max(more));
    }
    assert!(at_a_stretch <= HOLDS / 2, "{at_a_stretch} of {HOLDS} at a stretch");
}

/// C12: a renewal that one server does not answer costs the holds of another server nothing.
#[tokio::test(start_paused = true)]
async fn c12_a_silent_server_costs_its_own_holds_alone() {
    const TTL: Duration = Duration::from_secs(3);
    let store = Faulty::new(Arc::new(MemoryBackend::new()));
    let client = LockClient::new(store.clone());
    let there = LockName::new("there").expect("a name");
    store.move_to(&there, 1);
    let (kept, lost) = (held(&client, "here", TTL).await, held(&client, "there", TTL).await);
    store.jam(&there);
    sleep(TTL * 4).await;
    assert!(kept.is_held(), "its own server answers");
    assert!(!lost.is_held(), "nobody renewed it");
}

/// C12: a hold for which the server cannot answer costs no other hold of its batch.
#[tokio::test(start_paused = true)]
async fn c12_a_hold_without_an_answer_costs_no_other_of_its_server() {
    const TTL: Duration = Duration::from_secs(3);
    let store = Faulty::new(Arc::new(MemoryBackend::new()));
    let client = LockClient::new(store.clone());
    let names: Vec<String> = (0..50).map(|i| format!("kept-{i}")).collect();
    let kept = join_all(names.iter().map(|name| held(&client, name, TTL))).await;
    let jammed = held(&client, "jammed", TTL).await;
    store.jam(&LockName::new("jammed").expect("a name"));
    sleep(TTL * 4).await;
    let lost = kept.iter().filter(|guard| !guard.is_held()).count();
    assert_eq!((lost, jammed.is_held()), (0, false));
}

/// C12: the holds of a silent server stay in batches.
#[tokio::test(start_paused = true)]
async fn c12_a_silent_server_gets_no_flood_of_renewals() {
    let store = Faulty::new(Arc::new(MemoryBackend::new()));
    let client = LockClient::new(store.clone());
    let names: Vec<String> = (0..2000).map(|i| format!("held-{i}")).collect();
    let ttl = Duration::from_secs(30);
    let guards = join_all(names.iter().map(|name| held(&client, name, ttl))).await;
    store.always(Operation::Extend, Fault::Silence);
    sleep(ttl * 2).await;
    assert!(guards.iter().all(|guard| !guard.is_held()));
    let calls = store.calls(Operation::Extend);
    assert!(calls < 200, "{calls} calls");
}

/// Sends one request at a time, each for one hold.
#[derive(Debug)]
struct OneByOne {
    store: MemoryBackend,
    connection: Mutex<()>,
}

#[async_trait]
impl DistributedLock for OneByOne {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = self.store.capabilities();
        capabilities.renewals = Renewals::Single;
        capabilities
    }

    async fn acquire(
        &self,
        claim: &Claim,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        self.store.acquire(claim, waiter).await
    }

    async fn extend(&self, renewals: &[Renewal]) -> Vec<Result<Extension, BackendError>> {
        let mut answers = Vec::new();
        for renewal in renewals {
            let _connection = self.connection.lock().await;
            sleep(Duration::from_millis(25)).await;
            answers.push(self.store.extend_one(renewal).await);
        }
        answers
    }

    async fn release(&self, name: &LockName, owner: OwnerId) -> Result<Release, BackendError> {
        self.store.release(name, owner).await
    }

    async fn withdraw(&self, name: &LockName, owners: &[OwnerId]) -> Result<(), BackendError> {
        self.store.withdraw(name, owners).await
    }
}

/// C12: five hundred renewals one after the other, which together take longer than one may, lose no hold.
#[tokio::test(start_paused = true)]
async fn c12_renewals_that_share_no_request_share_no_time_out() {
    let backend = OneByOne { store: MemoryBackend::new(), connection: Mutex::default() };
    let client = LockClient::new(backend);
    let names: Vec<String> = (0..500).map(|i| format!("held-{i}")).collect();
    let ttl = Duration::from_secs(30);
    let guards = join_all(names.iter().map(|name| held(&client, name, ttl))).await;
    sleep(ttl * 3).await;
    let lost = guards.iter().filter(|guard| !guard.is_held()).count();
    assert_eq!(lost, 0);
}
