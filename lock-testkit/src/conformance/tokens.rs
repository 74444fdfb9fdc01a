//! C22: tokens grow.

use std::sync::Mutex;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, timeout};

use super::harness::Harness;
use super::steps::{attempt, claim, client, eventually, fresh_name, patient};
use lock_core::LostReason;
use lock_core::backend::Attempt;

/// C22: each grant has a greater token than all before, whatever ended the earlier holds.
pub async fn c22_tokens_grow_through_release_expiry_and_eviction(harness: &dyn Harness) {
    let (client, name) = (client(harness).await, fresh_name());
    let mut last = None;
    for round in 0..6 {
        let expires = round % 3 == 1;
        let ttl = if expires { harness.ttl() } else { harness.long_ttl() };
        let guard = client.acquire(patient(&name, ttl)).await.expect("its turn comes");
        let token = guard.token();
        assert!(
            Some(token) > last,
            "each grant is to have a greater token: {token} after {last:?}"
        );
        last = Some(guard.token());
        match round % 3 {
            0 => guard.release().await.expect("it was held to the end"),
            // Nobody renews the hold: it expires.
            1 => drop(guard.detach().expect("held")),
            _ => {
                harness.evict(&name).await;
                drop(guard);
            }
        }
    }
}

/// C22: a hold has one token.
pub async fn c22_extending_keeps_the_token(harness: &dyn Harness) {
    let (client, name) = (client(harness).await, fresh_name());
    let guard = client.acquire(patient(&name, harness.long_ttl())).await.expect("a free lock");
    let (token, first) = (guard.token(), guard.deadline());
    guard.extend(harness.long_ttl() * 2).await.expect("held");
    eventually(harness, "it is renewed", async || guard.deadline() != first).await;
    assert_eq!(guard.token(), token, "an extension is to keep the token");
    let holder =
        client.admin().inspect(&name).await.expect("an answer").holder().cloned().expect("held");
    assert_eq!(holder.token, Some(token), "the server is to keep the token of an extended hold");
    guard.release().await.expect("an answer");
}

/// S2, S3: under contention, holds do not overlap, and tokens are in the order of the grants.
pub async fn c22_concurrent_grants_have_distinct_growing_tokens(harness: &dyn Harness) {
    const CLIENTS: usize = 4;
    const ROUNDS: usize = 25;
    let (name, log) = (fresh_name(), Mutex::new(Vec::new()));
    let workers = (0..CLIENTS).map(async |_| {
        let client = client(harness).await;
        for _ in 0..ROUNDS {
            let guard =
                client.acquire(patient(&name, harness.long_ttl())).await.expect("its turn comes");
            let (token, entered) = (guard.token(), Instant::now());
            tokio::task::yield_now().await;
            let left = Instant::now();
            guard.release().await.expect("an answer");
            log.lock().expect("no panic").push((token, entered, left));
        }
    });
    join_all(workers).await;
    let mut log = log.into_inner().expect("no panic");
    log.sort_unstable_by_key(|(token, ..)| *token);
    assert_eq!(log.len(), CLIENTS * ROUNDS, "every acquisition is to be granted once");
    for pair in log.windows(2) {
        let ((first, _, left), (second, entered, _)) = (pair[0], pair[1]);
        assert!(
            first < second,
            "each grant is to have a token of its own: {first} was granted twice"
        );
        let apart = left <= entered;
        assert!(apart, "a lock is to have one holder: {second} was granted while {first} was held");
    }
    // No queue entry or hold is left behind.
    let backend = harness.connect().await;
    let claim = claim(&name, Duration::from_secs(1));
    let free = attempt(&*backend, &claim).await;
    let is_free = matches!(free, Attempt::Granted(_));
    assert!(is_free, "no hold and no place in the queue is to be left behind: {free:?}");
    backend.withdraw(&name, &[claim.owner]).await.expect("an answer");
}

/// C8, C24: after an eviction the next token is greater, and the holder learns of its loss.
pub async fn c24_an_evicted_holder_has_the_lesser_token(harness: &dyn Harness) {
    let (holder, operator, name) = (client(harness).await, client(harness).await, fresh_name());
    let request = patient(&name, harness.ttl() * 5).label("evicted");
    let evicted = holder.acquire(request).await.expect("a free lock");
    let mut whose = operator.admin().evict(&name).await.expect("an answer");
    let whose = whose.pop().expect("an eviction is to tell whose hold it ended");
    let (told, held) = ((whose.token, whose.label.as_str()), (Some(evicted.token()), "evicted"));
    assert_eq!(told, held, "an eviction is to tell whose hold it ended");
    let nobody = operator.admin().evict(&name).await.expect("an answer");
    assert_eq!(nobody, [], "an eviction of a free lock is to say that nobody held it");
    let next = operator.acquire(patient(&name, harness.long_ttl())).await.expect("it is free");
    assert!(next.token() > evicted.token(), "the next holder is to have a greater token");
    let reason = timeout(harness.limit(), evicted.lost()).await.expect("the loss is told");
    assert_eq!(reason, LostReason::Evicted, "a holder is to learn that it was evicted");
    assert!(next.is_held(), "an eviction is to end no later hold");
    next.release().await.expect("an answer");
}
