//! C10, S5, S6: the right to extend and release a hold.

use crate::Expect;
use lock_core::backend::DistributedLockExt;
use lock_core::backend::{Extension, Release, Renewal};
use lock_core::{OwnerId, Ttl};

use super::harness::Harness;
use super::steps::{claim, fresh_name, granted, renewal, until_expired};

/// S5, C3: a client without the owner id can neither extend, release nor withdraw a hold, even if it knows its name
/// and token, which are no secrets.
pub async fn s5_nobody_but_the_owner_extends_or_ends_a_hold(harness: &dyn Harness) {
    let (backend, name) = (harness.connect().await, fresh_name());
    let held = claim(&name, harness.long_ttl());
    let token = granted(&*backend, &held).await.token;
    let mut stranger = held.clone();
    stranger.owner = OwnerId::random();
    let extended = backend.extend_one(&renewal(&stranger, token)).await.expect("an answer");
    assert_eq!(extended, Extension::Lost, "a stranger is not to extend a hold");
    let released = backend.release(&name, stranger.owner).await.expect("an answer");
    assert_eq!(released, Release::NotHeld, "a stranger is not to release a hold");
    backend.withdraw(&name, &[stranger.owner]).await.expect("an answer");
    let holder = backend.expect_admin().inspect(&name).await.expect("an answer").holder().cloned();
    let kept = holder.and_then(|holder| holder.token);
    assert_eq!(kept, Some(token), "a stranger is not to end a hold");
    let released = backend.release(&name, held.owner).await.expect("an answer");
    assert_eq!(released, Release::Released, "the owner is to release its hold");
}

/// C10, C14, C22, S6: an expired hold is over, even if nobody has acquired the lock since. It is not extended, its
/// release ends nothing, and its owner's next grant is another one.
pub async fn c10_an_expired_hold_is_over(harness: &dyn Harness) {
    let (backend, name) = (harness.connect().await, fresh_name());
    let claim = claim(&name, harness.ttl());
    let first = granted(&*backend, &claim).await.token;
    until_expired(harness, &*backend, &name).await;
    let extended = backend.extend_one(&renewal(&claim, first)).await.expect("an answer");
    assert_eq!(extended, Extension::Lost, "the server is not to extend a hold that expired");
    let released = backend.release(&name, claim.owner).await.expect("an answer");
    assert_eq!(released, Release::NotHeld, "a release of an expired hold is to end nothing");
    let holder = backend.expect_admin().inspect(&name).await.expect("an answer").holder().cloned();
    assert_eq!(holder, None, "an expired hold is not to come back");
    let second = granted(&*backend, &claim).await.token;
    assert!(second > first, "a grant after the expiry is to have a greater token: {second}");
    let extended = backend.extend_one(&renewal(&claim, first)).await.expect("an answer");
    assert_eq!(extended, Extension::Lost, "the server is not to extend a hold by an old token");
    backend.release(&name, claim.owner).await.expect("an answer");
}

/// C10, C12: the answers of a batch are in the order of its questions, and each hold gets its own TTL. A lost hold
/// does not affect the others.
pub async fn c12_a_batch_is_answered_in_its_order(harness: &dyn Harness) {
    let (backend, tag, ttl) = (harness.connect().await, fresh_name(), harness.ttl() * 10);
    // The names are in reverse order.
    let names = ["e", "d", "c", "b", "a"].map(|part| format!("{tag}-{part}"));
    let claims = names.map(|name| claim(&name.parse().expect("a good name"), ttl));
    let mut batch: Vec<Renewal> = Vec::new();
    for (place, claim) in claims.iter().enumerate() {
        let token = granted(&*backend, claim).await.token;
        let mut renewal = renewal(claim, token);
        renewal.ttl = Ttl::new(ttl * (1 + place as u32)).expect("a good TTL");
        batch.push(renewal);
    }
    let (lost, kept) = ([1, 3, 4], [0, 2]);
    for place in lost {
        let claim = &claims[place];
        backend.release(&claim.name, claim.owner).await.expect("an answer");
    }
    let answers = backend.extend(&batch).await;
    let answers: Vec<_> = answers.into_iter().map(|answer| answer.expect("an answer")).collect();
    let told: Vec<usize> =
        (0..answers.len()).filter(|place| answers[*place] != Extension::Lost).collect();
    assert_eq!(answers.len(), batch.len(), "a batch is to have an answer for each question");
    assert_eq!(told, kept, "the answers to a batch are to be in the order of its questions");
    let holder =
        backend.expect_admin().inspect(&claims[2].name).await.expect("an answer").holder().cloned();
    let left = holder.and_then(|holder| holder.ttl_left).unwrap_or_default();
    assert!(left > ttl * 2, "each hold is to get the TTL that was asked for it: {left:?} is left");
    let none = backend.extend(&[]).await;
    assert!(none.is_empty(), "an empty batch is to have no answers");
    for place in kept {
        let claim = &claims[place];
        backend.release(&claim.name, claim.owner).await.expect("an answer");
    }
}
