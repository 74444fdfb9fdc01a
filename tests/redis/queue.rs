//! What the queue of a lock is on the server.

use leasehold::core::backend::{Attempt, Claim, WaiterHandle};
use leasehold::{DistributedLock, LockRequest};
use lock_testkit::RedisServer;

use crate::support::fresh_name;

fn claim(name: &str) -> Claim {
    LockRequest::new(name).claim().expect("a claim")
}

fn companion(name: &str, what: &str) -> String {
    format!("{{{name}}}:{what}")
}

/// Takes a place in the queue: how many stand before it.
async fn place(backend: &dyn DistributedLock, claim: &Claim) -> Option<u64> {
    let (waiter, _events) = WaiterHandle::channel();
    match backend.try_acquire(claim, Some(&waiter)).await.expect("an answer") {
        Attempt::Busy(contention) => contention.position,
        granted => panic!("{granted:?}"),
    }
}

/// R1: nobody takes out who died before it looked a second time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r1_a_place_in_a_queue_ends_by_itself() {
    let server = RedisServer::start().await;
    let backend = leasehold::backend(&server.url()).await.expect("a connection");
    let name = fresh_name();
    backend.try_acquire(&claim(&name), None).await.expect("an answer");
    for ahead in 0..3 {
        assert_eq!(place(&*backend, &claim(&name)).await, Some(ahead));
        for what in ["queue", "waiters"] {
            let left = server.cli(&["PTTL", &companion(&name, what)]).integer();
            assert!((1..=6000).contains(&left), "{what} lasts for {left} ms");
        }
    }
}

/// C27: also where the server's clock stepped back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c27_who_comes_later_stands_behind_whatever_the_clock_says() {
    let server = RedisServer::start().await;
    let backend = leasehold::backend(&server.url()).await.expect("a connection");
    let name = fresh_name();
    backend.try_acquire(&claim(&name), None).await.expect("an answer");
    let (first, second) = (claim(&name), claim(&name));
    place(&*backend, &first).await;
    let queue = companion(&name, "queue");
    server.cli(&["ZINCRBY", &queue, "3600000000", &first.owner.expose()]);
    assert_eq!(place(&*backend, &second).await, Some(1));
    let last = server.cli(&["ZRANGE", &queue, "-1", "-1"]);
    assert_eq!(last.array()[0].text(), second.owner.expose());
}
