//! What a client costs that holds nothing.

#![allow(clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lock_core::backend::async_trait;
use lock_core::{ClientOptions, Clock, LockClient, MemoryBackend, Moment, SystemClock};
use tokio::time::{advance, sleep};

/// Counts how often it is asked for the time.
#[derive(Debug, Default)]
struct CountingClock(AtomicUsize);

#[async_trait]
impl Clock for CountingClock {
    fn now(&self) -> Moment {
        self.0.fetch_add(1, Ordering::Relaxed);
        SystemClock.now()
    }

    async fn sleep_until(&self, deadline: Moment) {
        // As the clock of the machine does: it looks again and again, because of suspend.
        while !self.now().has_reached(deadline) {
            sleep(self.now().until(deadline).min(Duration::from_millis(50))).await;
        }
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
        // The renewer notices within its next step that nothing is held any more.
        sleep(Duration::from_secs(1)).await;
        let looked = clock.0.load(Ordering::Relaxed);
        advance(Duration::from_secs(3600)).await;
        sleep(Duration::from_secs(1)).await;
        assert_eq!(clock.0.load(Ordering::Relaxed), looked, "it woke though it holds nothing");
    }
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
