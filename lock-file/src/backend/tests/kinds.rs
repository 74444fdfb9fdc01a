//! Several holders of one lock: the clauses that depend on files.

use super::*;

use lock_core::backend::{Claim, WAITER_LIVENESS};
use lock_core::{Permits, Slots};
use uuid::Uuid;

use crate::directory::Queueing;
use crate::testing::queue_at;

fn shared() -> Claim {
    claim_of(LockRequest::new("a").ttl(TTL).shared())
}

/// Queues a claim that polls; returns the number of waiters before it.
async fn queue(lock: &FileBackend, claim: &Claim) -> u64 {
    match lock.try_once(claim, Queueing::Polling).await.expect("an answer") {
        Attempt::Busy(seen) => seen.position.expect("a place"),
        Attempt::Granted(_) => panic!("there was room"),
    }
}

/// Returns the owners of the holders of "a", in the order of their grants, as others see them.
async fn holders(lock: &FileBackend) -> Vec<String> {
    let state = lock.inspect(&claim("a").name).await.expect("an answer");
    state.holders.into_iter().map(|holder| holder.owner.expect("one of ours")).collect()
}

fn owners(claims: &[&Claim]) -> Vec<String> {
    claims.iter().map(|claim| claim.owner.to_string()).collect()
}

#[tokio::test]
async fn c34_a_writer_that_fell_silent_keeps_out_no_reader() {
    let home = tempdir().expect("a directory");
    let start = on(home.path(), "boot", ZERO, ZERO);
    let later = on(home.path(), "boot", || WAITER_LIVENESS + Duration::from_nanos(1), ZERO);
    let (first, writer, reader) = (shared(), claim("a"), shared());
    granted(&start, &first).await;
    queue(&start, &writer).await;
    assert!(is_busy(&start, &reader).await);
    granted(&later, &reader).await;
}

#[tokio::test]
async fn c34_a_release_lets_in_a_whole_run_of_readers() {
    let (_home, lock) = timeless();
    let writer = claim("a");
    granted(&lock, &writer).await;
    let readers: Vec<Claim> = (0..80).map(|_| shared()).collect();
    for (before, reader) in readers.iter().enumerate() {
        assert_eq!(queue(&lock, reader).await, before as u64);
    }
    lock.release(&writer.name, writer.owner).await.expect("released");
    assert_eq!(holders(&lock).await, owners(&readers.iter().collect::<Vec<_>>()));
}

#[tokio::test]
async fn c34_dead_waiters_of_all_kinds_are_passed_over_by_one_release() {
    let (_home, lock) = timeless();
    let held = claim("a");
    let (dead, alive) = ([shared(), claim("a"), shared()], [shared(), shared()]);
    granted(&lock, &held).await;
    for claim in &dead {
        queue_at(&lock, claim, Uuid::new_v4()).await;
    }
    for claim in &alive {
        queue(&lock, claim).await;
    }
    lock.release(&held.name, held.owner).await.expect("released");
    assert_eq!(holders(&lock).await, owners(&[&alive[0], &alive[1]]));
}

#[tokio::test]
async fn c36_a_hold_may_have_as_many_slots_as_there_are() {
    let (home, lock) = timeless();
    let most = LockRequest::new("a").ttl(TTL).permits(1, Permits::MAX);
    let (all, next) = (claim_of(most.clone().permits(Permits::MAX, Permits::MAX)), claim_of(most));
    assert_eq!(granted(&lock, &all).await.slots, Slots::new(0..Permits::MAX));
    assert_eq!(granted(&lock, &all).await.slots, Slots::new(0..Permits::MAX));
    assert_eq!(queue(&lock, &next).await, 0);
    lock.release(&all.name, all.owner).await.expect("released");
    assert_eq!(granted(&lock, &next).await.slots, Slots::new([0]));
    lock.release(&next.name, next.owner).await.expect("released");
    let length = fs::metadata(only_file(&home)).expect("there").len();
    assert!(length < 32 * 1024, "{length}: what nobody needs is cut off, or small");
}

/// The datagram of a grant has all its slots.
#[tokio::test]
async fn c36_a_waiter_is_told_of_all_its_slots() {
    let (home, lock) = home();
    let (holder, waiter) = (LockClient::new(lock), FileBackend::open(home.path()).expect("opens"));
    let waiter = LockClient::new(waiter);
    let held = holder.acquire(LockRequest::new("a").ttl(TTL)).await.expect("free");
    let most = LockRequest::new("a").ttl(TTL).wait(Wait::Forever);
    let most = most.permits(Permits::MAX, Permits::MAX);
    let released = async {
        while holder.admin().inspect("a").await.expect("an answer").waiters != Some(1) {
            sleep(Duration::from_millis(5)).await;
        }
        held.release().await.expect("held to the end");
    };
    let (guard, ()) = tokio::join!(waiter.acquire(most), released);
    let guard = guard.expect("its turn");
    assert!(guard.slots().iter().copied().eq(0..Permits::MAX));
    guard.release().await.expect("held to the end");
}
