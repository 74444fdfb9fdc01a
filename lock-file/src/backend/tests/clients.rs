//! Many clients of one directory.

use super::*;

/// Acquires and releases the lock `rounds` times; returns the tokens.
async fn take_turns(client: LockClient, rounds: usize, taken: &AtomicBool) -> Vec<FencingToken> {
    let mut tokens = Vec::new();
    for _ in 0..rounds {
        let guard = client.acquire("a").await.expect("acquired");
        assert!(!taken.swap(true, Ordering::SeqCst), "two holders");
        tokens.push(guard.token());
        tokio::task::yield_now().await;
        taken.store(false, Ordering::SeqCst);
        guard.release().await.expect("released");
    }
    tokens
}

#[test]
fn eight_clients_exclude_each_other_and_their_tokens_grow() {
    let (home, _lock) = home();
    let taken = AtomicBool::new(false);
    let turns = || {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let client = LockClient::new(FileBackend::open(home.path()).expect("opens"));
            take_turns(client, 25, &taken).await
        })
    };
    let mut tokens: Vec<FencingToken> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(turns)).collect();
        let tokens = threads.into_iter().flat_map(|thread| {
            let tokens = thread.join().expect("no panic");
            assert!(tokens.is_sorted());
            tokens
        });
        tokens.collect()
    });
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), 8 * 25, "no token twice");
}

/// An application may use all blocking threads for longer than a TTL.
#[test]
fn c12_a_hold_is_renewed_though_the_application_takes_all_blocking_threads() {
    const TTL: Duration = Duration::from_secs(9);
    let (_home, lock) = home();
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).max_blocking_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = std::sync::Arc::new(std::sync::Mutex::new(blocked));
    runtime.block_on(async {
        let client = LockClient::new(lock);
        let guard = client.acquire(LockRequest::new("a").ttl(TTL)).await.expect("acquired");
        for _ in 0..8 {
            let blocked = blocked.clone();
            tokio::task::spawn_blocking(move || drop(blocked.lock().map(|end| end.recv())));
        }
        let lost = timeout(TTL * 4 / 3, guard.lost()).await;
        assert!(lost.is_err() && guard.is_held(), "{lost:?}");
        drop(release);
        guard.release().await.expect("held to the end");
    });
}
