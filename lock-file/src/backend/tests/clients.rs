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

#[test]
fn tokens_grow_in_the_order_of_the_grants() {
    let (home, _lock) = home();
    let last = AtomicU64::new(0);
    let turns = |thread: usize| {
        let lock = FileBackend::open(home.path()).expect("opens");
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().expect("a runtime");
        runtime.block_on(async {
            for round in 0..50 {
                let mut claim = claim("a");
                claim.label = lock_core::Label::new(format!("{thread}/{round}")).expect("short");
                let grant = loop {
                    match lock.acquire(&claim, None).await {
                        Ok(Attempt::Granted(grant)) => break grant,
                        Ok(Attempt::Busy(_)) => sleep(Duration::from_millis(1)).await,
                        Err(error) => assert!(error.is_transient(), "{error}"),
                    }
                };
                let before = last.swap(grant.token.get(), Ordering::SeqCst);
                assert!(before < grant.token.get());
                // The others lock the file for a moment.
                while let Err(error) = lock.release(&claim.name, claim.owner).await {
                    assert!(error.is_transient(), "{error}");
                }
            }
        });
    };
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || turns(thread));
        }
    });
}

#[tokio::test]
async fn a_client_renews_waits_and_gives_back() {
    let (home, lock) = home();
    let client = LockClient::new(lock);
    let other = LockClient::new(FileBackend::open(home.path()).expect("opens"));
    let ttl = Duration::from_secs(2);
    let guard = client.acquire(LockRequest::new("a").ttl(ttl)).await.expect("acquired");
    sleep(ttl * 3 / 2).await;
    assert!(guard.is_held(), "renewed");
    assert!(other.try_acquire("a").await.expect("an answer").is_none());

    let request = LockRequest::new("a").wait(Wait::AtMost(Duration::from_secs(5)));
    let waiting = tokio::spawn(async move { other.acquire(request).await });
    sleep(Duration::from_millis(20)).await;
    let token = guard.token();
    drop(guard);
    let next = waiting.await.expect("no panic").expect("acquired");
    assert!(next.token() > token);
}

/// An application may use all blocking threads for longer than a TTL.
#[test]
fn c12_a_hold_is_renewed_though_the_application_takes_all_blocking_threads() {
    const TTL: Duration = Duration::from_secs(2);
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
        let lost = timeout(TTL * 4, guard.lost()).await;
        assert!(lost.is_err() && guard.is_held(), "{lost:?}");
        drop(release);
        guard.release().await.expect("held to the end");
    });
}
