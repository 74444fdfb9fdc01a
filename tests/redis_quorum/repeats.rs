//! Successive attempts of one claim.

use std::sync::Arc;
use std::time::Duration;

use leasehold::core::backend::{Attempt, Claim, Release};
use leasehold::{DistributedLock, FencingToken, LockRequest};
use lock_testkit::eventually;

use crate::set::Set;
use crate::support::{LIMIT, fresh_name};

async fn granted(locks: &Arc<dyn DistributedLock>, claim: &Claim) -> FencingToken {
    match locks.acquire(claim, None).await.expect("an answer") {
        Attempt::Granted(grant) => grant.token,
        busy @ Attempt::Busy(_) => panic!("nobody else has it: {busy:?}"),
    }
}

/// S3: votes for a failed attempt stay until they are given back, which may be late. They do not count for the
/// next attempt, whose hold would end with them. The first attempt is another client's here, so that the second
/// client does not know of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_votes_of_an_earlier_attempt_do_not_count_for_the_next() {
    let (set, name) = (Set::of(3).await, fresh_name());
    let (one, other) = (set.backend().await, set.backend().await);
    let claim = LockRequest::new(&name).ttl(Duration::from_secs(60)).claim().expect("a claim");
    let first = granted(&one, &claim).await;
    eventually("all voted", LIMIT, async || set.held(&name) == [true; 3]).await;
    let second = granted(&other, &claim).await;
    assert!(second > first, "it is given back with the votes under {first}");
    let given_back = one.release(&claim.name, claim.owner).await.expect("an answer");
    assert_eq!(given_back, Release::NotHeld);
    eventually("all have the second", LIMIT, async || set.held(&name) == [true; 3]).await;
}

/// C22: two clients learn of the same counter, and propose the same ballot at the same time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_of_two_equal_ballots_one_is_granted() {
    let set = Set::of(3).await;
    let (one, other) = (set.backend().await, set.backend().await);
    for _ in 0..20 {
        let name = fresh_name();
        let claim = || LockRequest::new(&name).claim().expect("a claim");
        let (first, second) = (claim(), claim());
        // Both clocks are behind it.
        let ahead = granted(&one, &LockRequest::new(fresh_name()).claim().expect("a claim")).await;
        let ahead = (ahead.get() + 3_600_000_000).to_string();
        set.cli(&["SET", &format!("{{{name}}}:fence"), &ahead]);
        let (a, b) = tokio::join!(one.acquire(&first, None), other.acquire(&second, None));
        let granted = [a, b].into_iter().flatten();
        let granted = granted.filter(|attempt| matches!(attempt, Attempt::Granted(_))).count();
        assert!(granted <= 1, "two hold");
        let [first, second] = [(&one, &first), (&other, &second)].map(|(backend, claim)| {
            let release = backend.release(&claim.name, claim.owner);
            async { release.await.expect("an answer") }
        });
        tokio::join!(first, second);
    }
}
