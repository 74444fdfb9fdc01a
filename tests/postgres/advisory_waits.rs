//! Who waits for an advisory lock, and leaves.

use leasehold::core::backend::{Attempt, Claim, WaiterHandle};
use leasehold::postgres::AdvisoryBackend;
use leasehold::{DistributedLock, LockError, Wait};
use lock_testkit::{PostgresServer, eventually};

use crate::advisory::{advisory, locks};
use crate::support::{LIMIT, SLACK, fresh_name, held, patient, released};

/// The sessions that wait for a lock, or are about to.
fn waiting(server: &PostgresServer) -> String {
    let sessions = "SELECT string_agg(pid::text, ' ') FROM pg_stat_activity \
        WHERE query LIKE '%_v1_take%' AND state = 'active' AND pid <> pg_backend_pid()";
    server.psql(sessions)
}

/// Asks for a lock that another holds, and waits for it.
async fn wait_for(lock: &AdvisoryBackend, claim: &Claim, waiter: &WaiterHandle) {
    let attempt = lock.acquire(claim, Some(waiter)).await.expect("an answer");
    assert!(matches!(attempt, Attempt::Busy(_)), "{attempt:?}");
}

/// C19: a wait that is given up leaves the server's queue at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c19_a_wait_that_is_given_up_leaves_the_queue() {
    let server = PostgresServer::start().await;
    let (holder, waiter) = (advisory(&server.url()).await, advisory(&server.url()).await);
    let name = fresh_name();
    let guard = held(&holder, &name).await;
    let request = patient(&name).wait(Wait::AtMost(SLACK));
    let refused = waiter.acquire(request).await;
    assert!(matches!(refused, Err(LockError::Timeout { .. })), "{refused:?}");
    eventually("it has left", LIMIT, async || locks(&server) == 1).await;
    // It was told, and did not have to find out by itself that nobody is there.
    assert!(server.log().contains("administrator command"), "{}", server.log());
    released(guard).await;
    released(held(&holder, &name).await).await;
}

/// C19: a client that is gone leaves the queue, although its process lives on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c19_the_waits_of_a_client_that_is_dropped_leave_the_queue() {
    let server = PostgresServer::start().await;
    let (holder, name) = (advisory(&server.url()).await, fresh_name());
    let guard = held(&holder, &name).await;
    let lock = AdvisoryBackend::connect(&server.url()).await.expect("a connection");
    let claim = patient(&name).claim().expect("a good claim");
    let (waiter, _events) = WaiterHandle::channel();
    wait_for(&lock, &claim, &waiter).await;
    eventually("it waits", LIMIT, async || locks(&server) == 2).await;
    drop(lock);
    eventually("it has left", LIMIT, async || locks(&server) == 1).await;
    released(guard).await;
}

/// C27: one who asks again before the server has it in the queue keeps the place that it is about to have.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c27_one_who_asks_again_before_it_waits_keeps_its_place() {
    let server = PostgresServer::start().await;
    let (holder, name) = (advisory(&server.url()).await, fresh_name());
    let guard = held(&holder, &name).await;
    server.psql(
        "DO $$ BEGIN EXECUTE (SELECT replace(pg_get_functiondef(oid), \
            'RAISE DEBUG ''waiting'';', 'RAISE DEBUG ''waiting''; PERFORM pg_sleep(0.5);') \
            FROM pg_proc WHERE proname LIKE '%_v1_wait'); END $$",
    );
    let lock = AdvisoryBackend::connect(&server.url()).await.expect("a connection");
    let claim = patient(&name).claim().expect("a good claim");
    let (waiter, _events) = WaiterHandle::channel();
    wait_for(&lock, &claim, &waiter).await;
    let first = waiting(&server);
    assert_eq!(locks(&server), 1, "it waits already, so nothing is proven");
    wait_for(&lock, &claim, &waiter).await;
    assert_eq!(locks(&server), 2);
    assert_eq!(waiting(&server), first, "another session waits in its place");
    released(guard).await;
}
