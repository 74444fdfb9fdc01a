//! Simultaneous tries of one client.

#![allow(clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use lock_core::{ClientOptions, LockClient, LockError, LockRequest, MemoryBackend, Wait};
use lock_testkit::{Fault, Faulty, Operation};
use tokio::time::{Instant, sleep};

const MS: Duration = Duration::from_millis(1);

/// Returns a client whose answers take 10 ms, and another one of the same store.
fn clients() -> (LockClient, Faulty, LockClient) {
    let store = MemoryBackend::new();
    let faulty = Faulty::new(Arc::new(store.clone()));
    faulty.always(Operation::Acquire, Fault::Late(MS * 10));
    (LockClient::new(faulty.clone()), faulty, LockClient::new(store))
}

/// C26: simultaneous tries cost at most two requests.
#[tokio::test(start_paused = true)]
async fn c26_tries_that_come_together_share_requests() {
    let (client, faulty, other) = clients();
    let held = other.acquire("a").await.expect("a free lock");
    let began = Instant::now();
    for tried in join_all((0..50).map(|_| client.try_acquire("a"))).await {
        assert!(tried.expect("an answer").is_none(), "a lock that is held is granted");
    }
    assert!(faulty.calls(Operation::Acquire) <= 2, "{}", faulty.calls(Operation::Acquire));
    assert!(began.elapsed() < MS * 25, "{:?}", began.elapsed());
    held.release().await.expect("held to the end");
    let tries = join_all((0..50).map(|_| client.try_acquire("a"))).await;
    let granted = tries.into_iter().filter_map(|tried| tried.expect("an answer")).count();
    assert_eq!(granted, 1, "a lock that is free is granted once");
}

/// C26: a "busy" that the server sent before a try began does not answer that try.
#[tokio::test(start_paused = true)]
async fn c26_a_try_sees_each_release_before_it() {
    let (client, faulty, other) = clients();
    let held = other.acquire("a").await.expect("a free lock");
    let early = tokio::spawn({
        let client = client.clone();
        async move { client.try_acquire("a").await }
    });
    while faulty.calls(Operation::Acquire) == 0 {
        tokio::task::yield_now().await;
    }
    held.release().await.expect("held to the end");
    let late = client.try_acquire("a").await.expect("an answer");
    assert!(late.is_some(), "the lock was free before the try began");
    assert!(early.await.expect("no panic").expect("an answer").is_none(), "it was held");
}

/// C17: the wait for the answer to another try is a part of the request time-out.
#[tokio::test(start_paused = true)]
async fn c17_tries_that_come_together_end_in_time() {
    let (client, faulty, _) = clients();
    faulty.always(Operation::Acquire, Fault::Silence);
    let began = Instant::now();
    for tried in join_all((0..50).map(|_| client.try_acquire("a"))).await {
        let error = tried.expect_err("no answer");
        assert!(error.is_transient() && error.to_string().contains("\"a\""), "{error}");
    }
    let bound = ClientOptions::REQUEST_TIMEOUT + MS * 100;
    assert!(began.elapsed() <= bound, "{:?}", began.elapsed());
}

/// C17: a try in progress that nobody polls any more costs the others half of a request time-out.
#[tokio::test(start_paused = true)]
async fn c17_a_try_that_nobody_polls_keeps_no_other_from_the_lock() {
    let (client, _, _) = clients();
    let mut stuck = Box::pin(client.try_acquire("a"));
    assert!(tokio::time::timeout(MS, &mut stuck).await.is_err(), "the answer takes longer");
    let began = Instant::now();
    let other = client.try_acquire("b").await.expect("an answer");
    assert!(other.is_some() && began.elapsed() < MS * 100, "another lock is another matter");
    let tried =
        client.try_acquire("a").await.expect("an answer of the server, and not of the client");
    assert!(tried.is_none(), "the other try was granted it");
    assert!(began.elapsed() <= ClientOptions::REQUEST_TIMEOUT, "{:?}", began.elapsed());
}

/// C26: one try asks a slow server for all, as it asks a quick one.
#[tokio::test(start_paused = true)]
async fn c26_tries_at_a_slow_server_share_requests() {
    let half = ClientOptions::REQUEST_TIMEOUT / 2;
    for (late, is_answered) in [(half * 2 / 5, true), (half * 3 / 2, false)] {
        let (client, faulty, other) = clients();
        faulty.always(Operation::Acquire, Fault::Late(late));
        let _held = other.acquire("a").await.expect("a free lock");
        let tries = (0..2_000).map(|number| {
            let client = &client;
            async move {
                // The tries do not end at one moment.
                sleep(MS * number / 100).await;
                client.try_acquire("a").await
            }
        });
        let tries = join_all(tries).await;
        let answered = tries.iter().filter(|tried| matches!(tried, Ok(None))).count();
        assert_eq!(answered, if is_answered { 2_000 } else { 0 });
        assert!(faulty.calls(Operation::Acquire) < 10, "{}", faulty.calls(Operation::Acquire));
    }
}

/// C14: a try that another one of its client leaves behind learns of the holder and its TTL.
#[tokio::test(start_paused = true)]
async fn c14_a_try_behind_a_grant_of_its_client_is_told_the_holder() {
    let (client, _, _) = clients();
    let request = LockRequest::new("a").label("nightly").ttl(MS * 1000).wait(Wait::Never);
    let (granted, refused) = tokio::join!(client.acquire(request.clone()), client.acquire(request));
    let _held = granted.expect("a free lock");
    let Err(LockError::NotAcquired { contention, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(contention.holder.expect("it is known").as_str(), "nightly");
    assert_eq!(contention.ttl_left, Some(MS * 1000));
}
