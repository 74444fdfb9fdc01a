//! R2: what a backend may not take from the program that uses it.

use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::{Instant, sleep};

use super::{Harness, SLACK, client, fresh_name, patient};

/// R2: on a runtime with a single thread, no call keeps the thread from other tasks.
pub async fn r2_no_call_blocks_the_runtime(harness: &dyn Harness) {
    let clients = [client(harness).await, client(harness).await];
    let ttl = harness.ttl() * 10;
    let thread = std::thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let pulse = tokio::spawn(longest_gap());
            for [one, two] in std::iter::repeat_n(&clients, 20) {
                let name = fresh_name();
                let guard = one.acquire(patient(&name, ttl)).await.expect("a free lock");
                assert!(two.try_acquire(&name).await.expect("an answer").is_none());
                guard.extend(ttl).await.expect("held");
                two.inspect(&name).await.expect("an answer");
                let (next, _) = tokio::join!(two.acquire(patient(&name, ttl)), guard.release());
                drop(next.expect("its turn comes"));
            }
            clients[1].shutdown().await;
            pulse.abort();
            pulse.await
        })
    });
    let ended = tokio::task::spawn_blocking(|| thread.join()).await.expect("no panic");
    assert!(
        ended.expect("no panic").is_err_and(|end| end.is_cancelled()),
        "the runtime was blocked"
    );
}

/// Beats for ever; panics if it was kept from beating.
async fn longest_gap() {
    loop {
        let beat = Instant::now();
        sleep(Duration::from_millis(5)).await;
        assert!(beat.elapsed() < SLACK, "a call kept the thread for {:?}", beat.elapsed());
    }
}
