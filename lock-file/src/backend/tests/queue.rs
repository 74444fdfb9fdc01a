//! Order of service, and waiters that are skipped.

use super::*;

use lock_core::Label;
use lock_core::backend::{UNCLAIMED_GRANT_TTL, WAITER_LIVENESS};
use uuid::Uuid;

use crate::directory::Queueing;
use crate::slots::FILE_BYTES;
use crate::testing::queue_at;

/// Returns a claim of "a" with this label.
fn claim_by(who: &str) -> lock_core::backend::Claim {
    claim_of(LockRequest::new("a").ttl(TTL).label(who))
}

/// Queues a claim that polls; returns the number of waiters before it.
async fn queue(lock: &FileBackend, claim: &lock_core::backend::Claim) -> u64 {
    match lock.try_once(claim, Queueing::Polling).await.expect("an answer") {
        Attempt::Busy(seen) => seen.position.expect("a place"),
        Attempt::Granted(_) => panic!("the lock was free"),
    }
}

/// Returns the label of the holder of "a".
async fn holder(lock: &FileBackend) -> Option<Label> {
    crate::testing::holder(lock, "a").await.map(|holder| holder.label)
}

async fn waiters(lock: &FileBackend) -> u64 {
    lock.inspect(&claim("a").name).await.expect("an answer").waiters.expect("a queue")
}

async fn release(lock: &FileBackend, claim: &lock_core::backend::Claim) {
    let released = lock.release(&claim.name, claim.owner).await.expect("an answer");
    assert_eq!(released, Release::Released);
}

fn label(text: &str) -> Option<Label> {
    Some(Label::new(text).expect("a label"))
}

#[tokio::test]
async fn c27_a_newcomer_to_an_expired_lock_finds_it_granted_to_the_first() {
    let home = tempdir().expect("a directory");
    let start = on(home.path(), "boot", ZERO, ZERO);
    let late = on(home.path(), "boot", || TTL - Duration::from_secs(1), ZERO);
    let end = on(home.path(), "boot", || TTL, ZERO);
    granted(&start, &claim_by("holder")).await;
    let (first, second) = (claim_by("first"), claim_by("second"));
    queue(&late, &first).await;
    assert_eq!(queue(&end, &second).await, 0);
    assert_eq!((holder(&end).await, waiters(&end).await), (label("first"), 1));
}

#[tokio::test]
async fn c28_the_first_that_is_alive_takes_an_expired_lock_itself() {
    let home = tempdir().expect("a directory");
    let start = on(home.path(), "boot", ZERO, ZERO);
    let late = on(home.path(), "boot", || TTL - Duration::from_secs(1), ZERO);
    let end = on(home.path(), "boot", || TTL, ZERO);
    granted(&start, &claim_by("holder")).await;
    let (silent, first, second) = (claim_by("silent"), claim_by("first"), claim_by("second"));
    queue(&start, &silent).await;
    queue(&late, &first).await;
    queue(&late, &second).await;
    granted(&end, &first).await;
    assert_eq!((holder(&end).await, waiters(&end).await), (label("first"), 1));
}

#[tokio::test]
async fn c28_a_grant_that_nobody_claims_is_short() {
    let (_home, lock) = timeless();
    let (first, second) = (claim_by("first"), claim_by("second"));
    granted(&lock, &first).await;
    queue(&lock, &second).await;
    release(&lock, &first).await;
    let state = lock.inspect(&second.name).await.expect("an answer");
    let left = state.holder().expect("held").ttl_left.expect("a TTL");
    assert!(left <= UNCLAIMED_GRANT_TTL, "{left:?}");
    // C16: a waiter that asks gets its full TTL.
    granted(&lock, &second).await;
    let state = lock.inspect(&second.name).await.expect("an answer");
    assert!(state.holder().expect("held").ttl_left > Some(UNCLAIMED_GRANT_TTL));
}

#[tokio::test]
async fn c28_a_waiter_that_was_silent_is_passed_over() {
    let home = tempdir().expect("a directory");
    let start = on(home.path(), "boot", ZERO, ZERO);
    let later = on(home.path(), "boot", || WAITER_LIVENESS + Duration::from_nanos(1), ZERO);
    let (held, silent, alive) = (claim_by("holder"), claim_by("silent"), claim_by("alive"));
    granted(&start, &held).await;
    queue(&start, &silent).await;
    queue(&start, &alive).await;
    assert_eq!(queue(&later, &alive).await, 0, "only those count that are alive");
    release(&later, &held).await;
    assert_eq!(holder(&later).await, label("alive"));
}

#[tokio::test]
async fn c28_a_waiter_whose_socket_nobody_has_is_passed_over() {
    let (_home, lock) = timeless();
    let (held, dead, alive) = (claim_by("holder"), claim_by("dead"), claim_by("alive"));
    granted(&lock, &held).await;
    queue_at(&lock, &dead, Uuid::new_v4()).await;
    queue(&lock, &alive).await;
    release(&lock, &held).await;
    assert_eq!(holder(&lock).await, label("alive"));
}

#[tokio::test]
async fn c19_a_withdrawal_takes_back_any_place() {
    for leaver in 0..3 {
        let (_home, lock) = timeless();
        let held = claim_by("holder");
        granted(&lock, &held).await;
        let mut waiting = ["1", "2", "3"].map(claim_by).to_vec();
        for claim in &waiting {
            queue(&lock, claim).await;
        }
        let left = waiting.remove(leaver);
        lock.withdraw(&left.name, &[left.owner]).await.expect("an answer");
        assert_eq!(waiters(&lock).await, 2);
        let mut before = held;
        for claim in waiting {
            release(&lock, &before).await;
            assert_eq!(holder(&lock).await, Some(claim.label.clone()));
            before = claim;
        }
        release(&lock, &before).await;
        assert_eq!(holder(&lock).await, None, "nobody else waits");
    }
}

#[tokio::test]
async fn a_reboot_ends_the_queue_with_the_hold() {
    let home = tempdir().expect("a directory");
    let before = on(home.path(), "one", || TTL, ZERO);
    let after = on(home.path(), "two", ZERO, ZERO);
    granted(&before, &claim_by("holder")).await;
    queue(&before, &claim_by("waiter")).await;
    assert_eq!(waiters(&after).await, 0);
    granted(&after, &claim_by("newcomer")).await;
    assert_eq!(waiters(&after).await, 0);
}

#[tokio::test]
async fn r04_a_queue_keeps_its_order_while_it_grows_and_moves_and_the_file_stays_small() {
    const WAITERS: usize = 200;
    let (home, lock) = timeless();
    let mut held = claim_by("holder");
    granted(&lock, &held).await;
    let length = || fs::metadata(only_file(&home)).expect("there").len();
    let mut waiting = std::collections::VecDeque::new();
    for arrivals in 0..WAITERS {
        let (stays, goes) = (claim_by(&format!("{arrivals}")), claim_by("goes"));
        assert_eq!(queue(&lock, &stays).await, waiting.len() as u64);
        assert_eq!(queue(&lock, &goes).await, waiting.len() as u64 + 1);
        waiting.push_back(stays);
        // Every other waiter is served at once, and every waiter that leaves makes a gap.
        if arrivals % 2 == 0 {
            release(&lock, &held).await;
            held = waiting.pop_front().expect("a waiter");
            assert_eq!(holder(&lock).await, Some(held.label.clone()));
        }
        lock.withdraw(&goes.name, &[goes.owner]).await.expect("an answer");
    }
    let entries = (length() - FILE_BYTES as u64) / crate::queue_entry::ENTRY_BYTES as u64;
    assert!(entries <= 8 * waiting.len() as u64, "{entries} for {}", waiting.len());
    while let Some(next) = waiting.pop_front() {
        release(&lock, &held).await;
        held = next;
        assert_eq!(holder(&lock).await, Some(held.label.clone()));
    }
    assert_eq!(length(), FILE_BYTES as u64, "what nobody needs is cut off");
}
