//! What a session that ends leaves behind: a holder that may believe for a while that it holds the lock.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use leasehold::postgres::AdvisoryBackend;
use leasehold::{LockError, LockGuard, LockRequest, Wait};
use lock_testkit::LeaseExt;
use lock_testkit::{Mode, PostgresServer, Proxy, eventually};

use crate::advisory::{advisory, locks};
use crate::server::url_at;
use crate::support::{LIMIT, MINUTE, fresh_name, held, patient, queued, released, served};

const TERMINATE: &str =
    "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted";

/// Ends the sessions of holders, for each of which one waits, by `end`. The sum of the time for which two believed.
async fn overlap(server: &PostgresServer, holder_url: &str, end: impl FnOnce()) -> Duration {
    const ROUNDS: usize = 20;
    let (holder, next) = (advisory(holder_url).await, advisory(&server.url()).await);
    let names: Vec<String> = (0..ROUNDS).map(|_| fresh_name()).collect();
    let (mut guards, mut waiting) = (Vec::new(), Vec::new());
    for name in &names {
        guards.push(held(&holder, name).await);
        waiting.push(queued(&next, &next, patient(name), name).await);
    }
    let lost = guards.into_iter().map(|guard: LockGuard| {
        tokio::spawn(async move {
            guard.lost().await;
            Instant::now()
        })
    });
    let let_in = waiting.into_iter().map(|waiting| {
        tokio::spawn(async move {
            let guard = served(waiting).await;
            (guard, Instant::now())
        })
    });
    let (lost, let_in): (Vec<_>, Vec<_>) = (lost.collect(), let_in.collect());
    end();
    let lost = join_all(lost).await.into_iter().map(|lost| lost.expect("no panic"));
    let mut overlap = Duration::ZERO;
    for (lost, let_in) in lost.zip(join_all(let_in).await) {
        let (guard, let_in) = let_in.expect("no panic");
        overlap += lost.saturating_duration_since(let_in);
        released(guard).await;
    }
    overlap
}

/// P2: nobody is let in beside a holder whose session was terminated, and that has not seen it yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_nobody_is_let_in_beside_the_holder_of_a_killed_session() {
    let server = PostgresServer::start().await;
    let overlap = overlap(&server, &server.url(), || drop(server.psql(TERMINATE))).await;
    assert_eq!(overlap, Duration::ZERO);
}

/// P2: nor beside one that does not hear of it, since its connection is half-open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_nobody_is_let_in_beside_the_holder_at_a_half_open_connection() {
    let server = PostgresServer::start().await;
    let proxy = Proxy::start(server.addr()).await;
    let end = || {
        proxy.set_existing(Mode::BlackHole);
        server.psql(TERMINATE);
    };
    assert_eq!(overlap(&server, &url_at(proxy.addr()), end).await, Duration::ZERO);
}

/// C28: who does not wait is let in as soon, and who has the lock in order or gives its wait up leaves nothing to wait for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_a_killed_session_keeps_nobody_out_for_long() {
    const GRACE: Duration = Duration::from_millis(3500);
    let server = PostgresServer::start().await;
    let (lock, next) =
        (AdvisoryBackend::connect(&server.url()).await.expect("in"), advisory(&server.url()).await);
    let name = fresh_name();
    let _lease = lock.acquire_lease(&patient(&name).ttl(MINUTE)).await.expect("a free lock");
    server.psql(TERMINATE);
    let ended = Instant::now();
    let try_once = || next.acquire(LockRequest::new(&name).wait(Wait::Never));
    eventually("it is free", LIMIT, async || match try_once().await {
        Ok(guard) => {
            released(guard).await;
            true
        }
        Err(LockError::NotAcquired { .. }) => false,
        Err(error) => panic!("{error}"),
    })
    .await;
    let took = ended.elapsed();
    assert!(took > GRACE - Duration::from_millis(500), "let in after {took:?}");
    assert!(took < GRACE + Duration::from_secs(3), "let in after {took:?}");
    for _ in 0..10 {
        // Given up at about the time of its grant.
        let guard = held(&next, &name).await;
        let (waiter, other) = (next.clone(), name.clone());
        let waiting = tokio::spawn(async move { waiter.acquire(patient(&other)).await.map(drop) });
        eventually("it waits", LIMIT, async || locks(&server) == 2).await;
        let releasing = tokio::spawn(released(guard));
        waiting.abort();
        releasing.await.expect("no panic");
        let began = Instant::now();
        released(held(&next, &name).await).await;
        let took = began.elapsed();
        assert!(took < GRACE - Duration::from_millis(500), "let in after {took:?}");
    }
}
