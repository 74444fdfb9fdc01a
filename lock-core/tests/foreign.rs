//! C49: foreign content in the place of a lock.

#![allow(clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::time::Duration;

use lock_core::{Health, LockClient, LockError, LockName, LockRequest, MemoryBackend, Wait};
use lock_testkit::{Faulty, Foreign, Operation};
use tokio::time::Instant;

/// Returns a client of a store with this content in the place of a lock, and the lock's name.
fn store_with(foreign: Foreign) -> (LockClient, Faulty, LockName) {
    let faulty = Faulty::new(Arc::new(MemoryBackend::new()));
    let name = LockName::new("stock:42").expect("a name");
    faulty.put(&name, foreign);
    (LockClient::new(faulty.clone()), faulty, name)
}

#[tokio::test(start_paused = true)]
async fn c49_what_is_no_lock_is_an_error_at_once_however_long_the_wait() {
    let (client, faulty, name) = store_with(Foreign::NoLock);
    let asked = Instant::now();
    for wait in [Wait::Never, Wait::AtMost(Duration::from_secs(5)), Wait::Forever] {
        let refused = client.acquire(LockRequest::from(&name).wait(wait)).await;
        let Err(LockError::NotALock { name, found }) = refused else { panic!("{refused:?}") };
        assert_eq!((name.as_str(), &*found), ("stock:42", "something of the test"));
    }
    assert_eq!(faulty.calls(Operation::Acquire), 3, "it is asked once each");
    for refused in
        [client.admin().inspect(&name).await.map(drop), client.admin().evict(&name).await.map(drop)]
    {
        assert!(matches!(refused, Err(LockError::NotALock { .. })), "{refused:?}");
    }
    assert_eq!(asked.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn c49_a_key_without_a_ttl_is_waited_for_and_told() {
    const TOLD: &str = "by a key without a TTL that is not ours";
    let (client, _, name) = store_with(Foreign::KeyWithoutTtl);
    let refused = client.acquire(LockRequest::from(&name).wait(Wait::Never)).await;
    let Err(error @ LockError::NotAcquired { .. }) = refused else { panic!("{refused:?}") };
    assert!(error.to_string().contains(TOLD), "{error}");

    let bounded = LockRequest::from(&name).wait(Wait::AtMost(Duration::from_secs(3)));
    let Err(error @ LockError::Timeout { .. }) = client.acquire(bounded).await else {
        panic!("it was not waited for");
    };
    assert!(error.to_string().contains(TOLD), "{error}");

    let waiting = tokio::spawn({
        let (client, name) = (client.clone(), name.clone());
        async move { client.acquire(&name).await }
    });
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!waiting.is_finished());
    client.admin().evict(&name).await.expect("an answer").pop().expect("it held the lock");
    waiting.await.expect("no panic").expect("its turn comes").release().await.expect("it was held");
}

#[tokio::test]
async fn c49_an_examination_names_what_keeps_a_lock_from_everybody() {
    for (foreign, says) in
        [(Foreign::NoLock, "something of the test"), (Foreign::KeyWithoutTtl, "without a TTL")]
    {
        let (client, _, name) = store_with(foreign);
        let findings = client.admin().examine(&name).await.expect("an answer");
        assert_eq!(findings.len(), 1);
        let finding = &findings[0];
        assert!(finding.health == Health::Risk && finding.remedy.is_some(), "{finding}");
        assert!(finding.seen.contains(says) && finding.seen.contains("stock:42"), "{finding}");
        let free = client.admin().examine("free").await.expect("an answer");
        assert_eq!(free[0].health, Health::Good, "{free:?}");
    }
}
