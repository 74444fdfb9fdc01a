//! C45, C46: inspections and evictions of operators.

use std::time::{Duration, SystemTime};

use super::harness::Harness;
use super::steps::{client, eventually, fresh_name, held_by, patient};
use lock_core::{Fence, Kind, LockRequest, MemoryFence, Permits};

/// C45: observers see the time of a grant, if the server reports it; a renewal does not move it.
pub async fn c45_a_holder_tells_since_when(harness: &dyn Harness) {
    let (client, name, ttl) = (client(harness).await, fresh_name(), harness.ttl() * 3);
    let since = async || held_by(&client, &name).await.since;
    let before = SystemTime::now();
    let guard = client.acquire(patient(&name, ttl)).await.expect("a free lock");
    if let Some(first) = since().await {
        // The server's clock may differ from ours.
        let minute = Duration::from_secs(60);
        let plausible = first > before - minute && first < SystemTime::now() + minute;
        assert!(plausible, "since when it is held is to be the time of the grant: {first:?}");
        let deadline = guard.deadline();
        eventually(harness, "it is renewed", async || guard.deadline() != deadline).await;
        let later = since().await;
        assert_eq!(later, Some(first), "a renewal is not to move since when a lock is held");
    }
    guard.release().await.expect("an answer");
}

/// C46: a holder that was evicted with a fence is refused before anyone else holds the lock.
pub async fn c46_an_eviction_takes_the_fence_with_it(harness: &dyn Harness) {
    let (client, fence) = (client(harness).await, MemoryFence::new());
    let (name, ttl) = (fresh_name(), harness.ttl() * 10);
    let evicted = client.acquire(patient(&name, ttl)).await.expect("a free lock");
    fence.advance(evicted.token()).await.expect("the first");
    let holder = client
        .admin()
        .evict_and_fence(&name, &fence)
        .await
        .expect("an answer")
        .pop()
        .expect("held");
    let whose = holder.token;
    assert_eq!(whose, Some(evicted.token()), "an eviction is to tell whose hold it ended");
    let late = fence.advance(evicted.token()).await;
    assert!(
        late.is_err_and(|error| error.is_stale()),
        "the fence is to refuse the evicted holder at once"
    );
    let next = client.acquire(patient(&name, ttl)).await.expect("it is free");
    fence.advance(next.token()).await.expect("the next holder is let in");
    let nobody = client.admin().evict_and_fence(fresh_name(), &fence).await.expect("an answer");
    assert_eq!(nobody, [], "an eviction of a free lock is to say that nobody held it");
    fence.advance(next.token()).await.expect("nobody was evicted");
    next.release().await.expect("an answer");
}

/// C46, C38: one of several holders is evicted with the fence of its slot, and the others continue.
pub async fn c46_an_eviction_of_one_takes_its_fence_with_it(harness: &dyn Harness) {
    let (client, name) = (client(harness).await, fresh_name());
    let one_of_two = Kind::OneOf(Permits::new(1, 2).expect("good permits"));
    let has_permits = client.capabilities().kinds.has(one_of_two);
    let seat = || match has_permits {
        true => patient(&name, harness.long_ttl()).permits(1, 2),
        false => patient(&name, harness.long_ttl()),
    };
    let acquire = async |request: LockRequest| client.acquire(request).await.expect("it is free");
    let (evicted, fence) = (acquire(seat()).await, MemoryFence::new());
    let beside = if has_permits { Some((acquire(seat()).await, MemoryFence::new())) } else { None };
    let holders = client.admin().inspect(&name).await.expect("an answer").holders;
    let owner = holders[0].owner.clone().expect("one of ours");
    let evict = async || client.admin().evict_owner_and_fence(&name, &owner, &fence).await;
    let ended = evict().await.expect("an answer").expect("it held");
    assert_eq!(ended.token, Some(evicted.token()), "the hold of this owner is to end");
    let late = fence.advance(evicted.token()).await;
    assert!(late.is_err_and(|error| error.is_stale()), "the evicted holder is to be refused");
    if let Some((guard, fence)) = beside {
        fence.advance(guard.token()).await.expect("the fence of another slot is as it was");
        guard.release().await.expect("another holder goes on");
    }
    let next = acquire(seat()).await;
    fence.advance(next.token()).await.expect("the next holder is let in");
    assert_eq!(evict().await.expect("an answer"), None, "it holds nothing any more");
    fence.advance(next.token()).await.expect("nobody was evicted");
    next.release().await.expect("an answer");
}
