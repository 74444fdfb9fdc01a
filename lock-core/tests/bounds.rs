//! R4: a client's memory is bounded by its holds and waits.

#![allow(clippy::expect_used, clippy::panic)]
#![cfg(target_os = "linux")]

use std::time::Duration;

use futures_util::future::join_all;
use lock_core::{LockClient, LockRequest, MemoryBackend};
use tokio::time::timeout;

const KIB: usize = 1024;

/// Returns the memory of this process, in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("the state of this process");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("its memory");
    let kib = line.split_whitespace().nth(1).and_then(|kib| kib.parse::<usize>().ok());
    kib.expect("a number") * KIB
}

/// Both parts are one test, since they read the memory of the whole process.
#[tokio::test]
async fn r4_memory_is_bounded_by_what_is_held_and_waited_for() {
    names_that_are_not_used_any_more_cost_nothing().await;
    ten_thousand_waiters_cost_little_and_leave_nothing().await;
}

async fn names_that_are_not_used_any_more_cost_nothing() {
    const NAMES: usize = 100_000;
    let client = LockClient::new(MemoryBackend::new());
    let use_names = async |from: usize, count: usize| {
        for i in from..from + count {
            let guard = client.acquire(format!("name-{i}")).await.expect("a free lock");
            match i % 2 {
                0 => guard.release().await.expect("it was held to the end"),
                _ => drop(guard),
            }
        }
    };
    use_names(0, NAMES / 10).await;
    let before = resident();
    use_names(NAMES / 10, NAMES).await;
    let grown = resident().saturating_sub(before);
    assert!(grown < NAMES * 64, "{grown} bytes more after {NAMES} names");
}

async fn ten_thousand_waiters_cost_little_and_leave_nothing() {
    const WAITERS: usize = 10_000;
    let store = MemoryBackend::new();
    let clients: Vec<_> = (0..8).map(|_| LockClient::new(store.clone())).collect();
    let guard = clients[0].acquire("hot").await.expect("a free lock");
    let before = resident();
    let waiting = (0..WAITERS).map(|i| {
        let request = LockRequest::new("hot").ttl(Duration::from_secs(60));
        clients[i % clients.len()].acquire(request)
    });
    let mut waiting = Box::pin(join_all(waiting));
    assert!(timeout(Duration::from_secs(1), &mut waiting).await.is_err(), "two holders");
    let grown = resident().saturating_sub(before);
    assert!(grown < WAITERS * 10 * KIB, "{} bytes for each waiter", grown / WAITERS);
    assert!(clients[0].admin().inspect("hot").await.expect("an answer").waiters <= Some(8));
    drop(waiting);
    guard.release().await.expect("an answer");
    let free = clients[0].acquire("hot");
    let free = timeout(Duration::from_secs(30), free).await.expect("nobody is left in line");
    free.expect("a free lock").release().await.expect("an answer");
}
