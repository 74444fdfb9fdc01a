//! C4, S7: the server keeps a hold for its whole reported TTL.
//!
//! A holder believes in its hold until a deadline that counts from before its request. In these tests another client
//! tries all the time. When it is granted the lock, the time since that request must be longer than the holder's
//! belief. A busy machine only makes the span longer, so it fails no sound backend.

use lock_core::backend::DistributedLockExt;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::harness::Harness;
use super::steps::{claim, fresh_name, granted, renewal};
use lock_core::backend::{Attempt, Claim, Extension, FALLBACK_POLL, WaiterEvent, WaiterHandle};
use lock_core::{DistributedLock, Drift, Ttl};

/// C4, C5, S7: a grant.
pub async fn c04_a_grant_lasts_for_all_of_its_ttl(harness: &dyn Harness) {
    let (backend, claim) = (harness.connect().await, claim(&fresh_name(), harness.ttl()));
    let asked = Instant::now();
    let told = granted(&*backend, &claim).await.ttl;
    assert_lasts(harness, &claim, "a grant", asked, told).await;
}

/// C16, S7: a repeated request that finds its own grant, for a full TTL again.
pub async fn c16_a_repeated_acquire_lasts_for_all_of_its_ttl(harness: &dyn Harness) {
    let (backend, claim) = (harness.connect().await, claim(&fresh_name(), harness.ttl()));
    let first = granted(&*backend, &claim).await;
    sleep(harness.ttl() / 2).await;
    let asked = Instant::now();
    let repeat = granted(&*backend, &claim).await;
    assert_eq!(repeat.token, first.token, "a repeat is to find its own grant");
    let (told, full) = (repeat.ttl, claim.ttl.as_duration());
    assert!(told >= full, "a repeat is to last for {full:?} again: {told:?} was told");
    assert_lasts(harness, &claim, "a repeated acquire", asked, told).await;
}

/// C16, S7: a repeated request with another TTL, as from the next caller of a client's line. The hold lasts for the
/// reported time.
pub async fn c16_a_repeat_for_another_ttl_lasts_as_it_says(harness: &dyn Harness) {
    let backend = harness.connect().await;
    for part in [2, 1] {
        let mut claim = claim(&fresh_name(), harness.ttl());
        let first = granted(&*backend, &claim).await;
        claim.ttl = Ttl::new(harness.ttl() * part * 2 / 3).expect("a good TTL");
        let asked = Instant::now();
        let repeat = granted(&*backend, &claim).await;
        assert_eq!(repeat.token, first.token, "a repeat is to find its own grant");
        let told = repeat.ttl.min(claim.ttl.as_duration());
        assert_lasts(harness, &claim, "a repeat for another TTL", asked, told).await;
    }
}

/// C16, S7: a repeated request for a place in the queue, with another TTL. Its grant lasts for the reported time.
pub async fn c16_a_place_for_another_ttl_lasts_as_it_says(harness: &dyn Harness) {
    let backend = harness.connect().await;
    for part in [2, 1] {
        let name = fresh_name();
        let (holder, mut next) = (claim(&name, harness.ttl() * 10), claim(&name, harness.ttl()));
        granted(&*backend, &holder).await;
        let (waiter, events) = WaiterHandle::channel();
        for ttl in [harness.ttl(), harness.ttl() * part * 2 / 3] {
            next.ttl = Ttl::new(ttl).expect("a good TTL");
            let attempt = backend.acquire(&next, Some(&waiter)).await.expect("an answer");
            assert!(matches!(attempt, Attempt::Busy(_)), "the lock is held");
        }
        let asked = Instant::now();
        backend.release(&name, holder.owner).await.expect("an answer");
        let grant = loop {
            match timeout(FALLBACK_POLL, events.next()).await {
                Ok(WaiterEvent::Granted(grant)) => break grant,
                Ok(WaiterEvent::TryAgain) | Err(_) => {}
            }
            let attempt = backend.acquire(&next, Some(&waiter)).await.expect("an answer");
            if let Attempt::Granted(grant) = attempt {
                break grant;
            }
        };
        let told = grant.ttl.min(next.ttl.as_duration());
        assert_lasts(harness, &next, "a place for another TTL", asked, told).await;
    }
}

/// C10, C12, S7: an extension, also one for longer than the grant.
pub async fn c12_an_extension_lasts_for_all_of_its_ttl(harness: &dyn Harness) {
    let (backend, mut claim) = (harness.connect().await, claim(&fresh_name(), harness.ttl()));
    let grant = granted(&*backend, &claim).await;
    sleep(harness.ttl() / 2).await;
    claim.ttl = Ttl::new(harness.ttl() * 3 / 2).expect("a good TTL");
    let asked = Instant::now();
    let extension = backend.extend_one(&renewal(&claim, grant.token)).await.expect("an answer");
    let Extension::Extended(told) = extension else {
        panic!("the server is to extend a hold that lasts, and said that it is lost");
    };
    let full = claim.ttl.as_duration();
    assert!(told >= full, "an extension is to last for {full:?}: {told:?} was told");
    assert_lasts(harness, &claim, "an extension", asked, told).await;
}

/// Asserts that nobody else is granted the lock of `claim` while its holder may believe, counted from `asked`. Frees
/// the lock.
async fn assert_lasts(
    harness: &dyn Harness,
    claim: &Claim,
    what: &str,
    asked: Instant,
    told: Duration,
) {
    let backend = harness.connect().await;
    let believed = Drift::default().validity(told.min(claim.ttl.as_duration()));
    let next = next_holder(harness, &*backend, claim).await;
    let lasted = asked.elapsed();
    assert!(
        lasted >= believed,
        "the server is to keep {what} for the {told:?} that it told: another got the lock after {lasted:?}"
    );
    backend.release(&claim.name, next.owner).await.expect("an answer");
}

/// Tries for as long as `claim` holds its lock, and returns the claim that is granted it then.
async fn next_holder(
    harness: &dyn Harness,
    backend: &dyn DistributedLock,
    holder: &Claim,
) -> Claim {
    let (next, end) = (claim(&holder.name, harness.ttl()), Instant::now() + harness.limit());
    while !matches!(backend.acquire(&next, None).await, Ok(Attempt::Granted(_))) {
        assert!(Instant::now() < end, "a hold that nobody renews is to end by its TTL");
        sleep(harness.ttl() / 50).await;
    }
    next
}
