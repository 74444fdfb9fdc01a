//! C10 to C13: extensions, renewals, and their end.

use lock_core::backend::DistributedLockExt;
use std::fmt::Debug;

use tokio::time::{Instant, sleep, timeout};

use super::harness::Harness;
use super::steps::{
    claim, client, eventually, faulty_client, fresh_name, granted, patient, renewal,
    unhurried_client, until_free,
};
use crate::{Fault, Operation};
use lock_core::backend::{Extension, Release, Renewal};
use lock_core::{DistributedLock, LockError, LockRequest, LostReason, Renewals, Ttl};

/// C10: the extension of a lost hold is `Lost` for ever, and restores no hold.
pub async fn c10_lost_is_final(harness: &dyn Harness) {
    let (client, other) = (client(harness).await, client(harness).await);
    let (name, ttl) = (fresh_name(), harness.ttl() * 10);
    let guard = client.acquire(patient(&name, ttl)).await.expect("a free lock");
    harness.evict(&name).await;
    let lost = guard.extend(ttl).await;
    told_as_lost(lost);
    assert!(!guard.is_held(), "a guard whose hold was lost is not to believe in it");
    until_free(harness, &other, &name).await;

    // The server restores no hold, neither while another holds the lock nor afterwards.
    let backend = harness.connect().await;
    let lease = client.acquire(patient(&name, ttl)).await.expect("free").detach().expect("held");
    let renewal = Renewal::new(&lease, Ttl::new(ttl).expect("a good TTL"));
    harness.evict(&name).await;
    let next = other.acquire(patient(&name, ttl)).await.expect("it is free");
    extends_nothing(&*backend, &renewal).await;
    assert!(next.is_held(), "the extension of a lost hold is to leave the next one alone");
    next.release().await.expect("an answer");
    extends_nothing(&*backend, &renewal).await;
    until_free(harness, &other, &name).await;
    told_as_lost(client.attach(lease).await);
    told_as_lost(guard.extend(ttl).await);
}

fn told_as_lost<T: Debug>(answer: Result<T, LockError>) {
    let is_lost = matches!(answer, Err(LockError::Lost { .. }));
    assert!(is_lost, "a hold that is lost is to be told as lost, for ever: {answer:?}");
}

/// The server extends nothing by a renewal of a hold that is over.
async fn extends_nothing(backend: &dyn DistributedLock, renewal: &Renewal) {
    let answer = backend.extend_one(renewal).await.expect("an answer");
    assert_eq!(answer, Extension::Lost, "the server is never to extend a hold that is over");
}

/// C10: if a late request of the same owner acquires a lost lock again, that is another hold, and the first stays
/// lost (S5).
pub async fn c10_a_later_grant_to_the_same_owner_is_another_hold(harness: &dyn Harness) {
    let (backend, name) = (harness.connect().await, fresh_name());
    let claim = claim(&name, harness.ttl() * 10);
    let mut holds = Vec::new();
    for _ in 0..2 {
        holds.push(renewal(&claim, granted(&*backend, &claim).await.token));
        if holds.len() == 1 {
            harness.evict(&name).await;
        }
    }
    let [first, second] = &holds[..] else { unreachable!("two holds") };
    assert!(second.token > first.token, "a later grant is to have a greater token");
    extends_nothing(&*backend, first).await;
    let extended = backend.extend_one(second).await.expect("an answer");
    let is_extended = matches!(extended, Extension::Extended(_));
    assert!(is_extended, "the later hold of the same owner is to be extended: {extended:?}");
    let released = backend.release(&name, claim.owner).await.expect("an answer");
    assert_eq!(released, Release::Released, "a release of a hold is to be told as released");
}

/// C10: extensions that overtake each other leave the hold at least as long as the longest of them.
pub async fn c10_extending_twice_at_once_is_safe(harness: &dyn Harness) {
    let (client, name) = (client(harness).await, fresh_name());
    let (short, long) = (harness.ttl(), harness.ttl() * 20);
    let guard = client.acquire(patient(&name, short)).await.expect("a free lock");
    let (one, two, three) =
        tokio::join!(guard.extend(short), guard.extend(long), guard.extend(short));
    one.and(two).and(three).expect("all of them hold");
    let holder =
        client.admin().inspect(&name).await.expect("an answer").holder().cloned().expect("held");
    let left = holder.ttl_left.expect("it has a TTL");
    assert!(
        left > long / 2,
        "the server is to keep the longest extension, {long:?}: {left:?} is left"
    );
    guard.release().await.expect("an answer");
}

/// C10: a shorter extension shortens nothing, and the hold is renewed as before.
pub async fn c10_a_shorter_extension_keeps_the_hold(harness: &dyn Harness) {
    let (client, name, ttl) = (client(harness).await, fresh_name(), harness.ttl());
    let guard = client.acquire(patient(&name, ttl * 3)).await.expect("a free lock");
    guard.extend(ttl).await.expect("held");
    let end = Instant::now() + ttl * 5;
    while Instant::now() < end {
        assert!(guard.is_held(), "a hold that is renewed is to last: {:?}", guard.lost_signal());
        sleep(ttl / 10).await;
    }
    guard.release().await.expect("it was held to the end");
}

/// C10: an extension for less than the TTL is only a proof, and makes no renewal shorter.
pub async fn c10_an_extension_for_proof_shortens_no_renewal(harness: &dyn Harness) {
    let (client, name, ttl) = (client(harness).await, fresh_name(), harness.ttl() * 6);
    let guard = client.acquire(patient(&name, ttl)).await.expect("a free lock");
    guard.extend(harness.ttl()).await.expect("held");
    let proven = guard.deadline();
    eventually(harness, "it is renewed", async || guard.deadline() != proven).await;
    let remaining = guard.remaining();
    assert!(remaining > ttl / 2, "a renewal is to last for {ttl:?}: {remaining:?} is left");
    let holder =
        client.admin().inspect(&name).await.expect("an answer").holder().cloned().expect("held");
    let left = holder.ttl_left.expect("it has a TTL");
    assert!(left > ttl / 2, "the server is to keep what was renewed, {ttl:?}: {left:?} is left");
    guard.release().await.expect("an answer");
}

/// C10: a lease is under one guard of a client at a time: else the second would believe in it after the first has
/// released it.
pub async fn c10_a_lease_is_attached_once(harness: &dyn Harness) {
    let (client, name, ttl) = (client(harness).await, fresh_name(), harness.ttl() * 10);
    let lease = client.acquire(patient(&name, ttl)).await.expect("free").detach().expect("held");
    let first = client.attach(lease.clone()).await.expect("held");
    let second = client.attach(lease.clone()).await;
    let is_refused = matches!(second, Err(LockError::AlreadyAttached { .. }));
    assert!(is_refused, "a lease is to be under one guard of a client at a time: {second:?}");
    assert!(first.is_held(), "the first guard of a lease is to keep it");
    first.release().await.expect("an answer");
    let late = client.attach(lease).await;
    told_as_lost(late);
    until_free(harness, &client, &name).await;
}

/// C11: work under the lock has stopped before the server receives the release.
pub async fn c11_not_held_from_the_start_of_the_release(harness: &dyn Harness) {
    let (client, faulty) = faulty_client(harness).await;
    let name = fresh_name();
    let guard = client.acquire(patient(&name, harness.ttl() * 10)).await.expect("a free lock");
    let signal = guard.lost_signal();
    faulty.once(Operation::Release, Fault::Late(harness.moment()));
    let release = tokio::spawn(guard.release());
    eventually(harness, "the release is under way", async || faulty.calls(Operation::Release) > 0)
        .await;
    let told = signal.reason();
    assert_eq!(told, Some(LostReason::Released), "a holder is to stop when its release begins");
    release.await.expect("no panic").expect("it was held to the end");
}

/// C11, S6: a renewal in flight at the release changes nothing, and none follows.
pub async fn c11_no_renewal_brings_a_released_lock_back(harness: &dyn Harness) {
    let (client, faulty) = faulty_client(harness).await;
    let (name, ttl) = (fresh_name(), harness.ttl() * 2);
    for _ in 0..3 {
        faulty.once(Operation::Extend, Fault::Late(ttl / 8));
        let before = faulty.calls(Operation::Extend);
        let guard = client.acquire(patient(&name, ttl)).await.expect("a free lock");
        let signal = guard.lost_signal();
        eventually(harness, "a renewal is in flight", async || {
            faulty.calls(Operation::Extend) > before
        })
        .await;
        guard.release().await.expect("an answer");
        let after = faulty.calls(Operation::Extend);
        until_free(harness, &client, &name).await;
        // Longer than a period, in which a renewal would come.
        sleep(ttl / 2).await;
        let renewals = faulty.calls(Operation::Extend);
        assert_eq!(renewals, after, "a hold is not to be renewed after its release");
        let told = signal.reason();
        assert_eq!(told, Some(LostReason::Released), "a released hold is to be told as released");
        let holder = client.admin().inspect(&name).await.expect("an answer").holder().cloned();
        assert_eq!(holder, None, "a renewal in flight is not to bring a released lock back");
    }
}

/// C12: a hold lasts for as long as its guard lives.
pub async fn c12_a_hold_is_renewed_past_its_ttl(harness: &dyn Harness) {
    let (client, other) = (client(harness).await, client(harness).await);
    let (name, ttl) = (fresh_name(), harness.ttl() * 2);
    let guard = client.acquire(patient(&name, ttl)).await.expect("a free lock");
    let end = Instant::now() + ttl * 2;
    while Instant::now() < end {
        assert!(guard.is_held(), "a hold that is renewed is to last: {:?}", guard.lost_signal());
        let tried = other.try_acquire(&name).await.expect("an answer");
        assert!(tried.is_none(), "a lock that is held is to be granted to nobody else");
        sleep(ttl / 10).await;
    }
    guard.release().await.expect("it was held to the end");
}

/// C12: a grant that took half of its TTL to arrive is renewed before the rest is over.
pub async fn c12_a_slow_grant_is_renewed_in_time(harness: &dyn Harness) {
    let (client, faulty) = unhurried_client(harness).await;
    let (name, ttl) = (fresh_name(), harness.ttl() * 3);
    faulty.once(Operation::Acquire, Fault::Late((ttl / 2).min(harness.request_timeout() * 2)));
    let guard = client.acquire(patient(&name, ttl)).await.expect("a free lock");
    let end = Instant::now() + ttl;
    while Instant::now() < end {
        assert!(guard.is_held(), "a hold that is renewed is to last: {:?}", guard.lost_signal());
        sleep(ttl / 10).await;
    }
    guard.release().await.expect("an answer");
}

/// C12: many holds are renewed in few requests, or each in its own if the backend says so.
pub async fn c12_renewals_go_in_batches(harness: &dyn Harness) {
    const HOLDS: usize = 250;
    let (client, faulty) = faulty_client(harness).await;
    let (tag, ttl) = (fresh_name(), harness.ttl() * 6);
    let mut guards = Vec::new();
    for i in 0..HOLDS {
        let request = LockRequest::new(format!("{tag}-{i}")).ttl(ttl);
        guards.push(client.acquire(request).await.expect("a free lock"));
    }
    // On a slow machine the first holds are renewed before the last is acquired, a few at a time.
    let before = faulty.calls(Operation::Extend);
    let first: Vec<_> = guards.iter().map(|guard| guard.deadline()).collect();
    eventually(harness, "all are renewed", async || {
        guards.iter().zip(&first).all(|(guard, first)| guard.deadline() != *first)
    })
    .await;
    let requests = faulty.calls(Operation::Extend) - before;
    let is_single = faulty.capabilities().renewals == Renewals::Single;
    let most = if is_single { usize::MAX } else { HOLDS / 10 };
    assert!(requests <= most, "{HOLDS} holds are to be renewed by {most} requests: {requests}");
    let kept = guards.iter().all(|guard| guard.is_held());
    assert!(kept, "all holds of a batch are to be kept");
    client.shutdown().await;
}

/// C12: a hold is renewed after failed renewals of each sort, and so is the next hold of the same name.
pub async fn c12_renewing_survives_errors(harness: &dyn Harness) {
    let (client, faulty) = faulty_client(harness).await;
    let (name, ttl) = (fresh_name(), harness.ttl() * 2);
    for fault in [Fault::Silence, Fault::SilenceAfter, Fault::Refused, Fault::Panic] {
        faulty.once(Operation::Extend, fault);
        let guard = client.acquire(patient(&name, ttl)).await.expect("a free lock");
        let first = guard.deadline();
        eventually(harness, "it is renewed", async || guard.deadline() != first).await;
        assert!(guard.is_held(), "{fault:?} of one renewal is to cost no hold");
        guard.release().await.expect("an answer");
    }
}

/// C12: a hold that the server refuses to extend does not affect the others of its batch.
pub async fn c12_one_refused_renewal_costs_no_other(harness: &dyn Harness) {
    let (client, faulty) = faulty_client(harness).await;
    let (names, ttl) = ([fresh_name(), fresh_name(), fresh_name()], harness.ttl() * 2);
    let mut guards = Vec::new();
    for name in &names {
        guards.push(client.acquire(patient(name, ttl)).await.expect("a free lock"));
    }
    faulty.refuse_to_extend(&names[1]);
    let reason = timeout(harness.limit(), guards[1].lost()).await.expect("its deadline comes");
    assert_eq!(reason, LostReason::Expired, "a hold that is not extended is to expire");
    sleep(ttl).await;
    let kept = guards[0].is_held() && guards[2].is_held();
    assert!(kept, "a renewal that is refused is to cost no other hold: {guards:?}");
}

/// C13: a bounded hold is not renewed beyond its bound.
pub async fn c13_max_hold_ends_renewing(harness: &dyn Harness) {
    // A busy machine renews a hold of twice the TTL in time.
    let (client, name, ttl) = (client(harness).await, fresh_name(), harness.ttl() * 2);
    let asked = Instant::now();
    let guard = client.acquire(patient(&name, ttl).max_hold(ttl)).await.expect("a free lock");
    let reason = timeout(harness.limit(), guard.lost()).await.expect("it ends");
    assert_eq!(reason, LostReason::MaxHold, "a hold past its bound is to tell so");
    let (held, bound) = (asked.elapsed(), ttl * 2 + harness.slack());
    let in_time = held > ttl && held < bound;
    assert!(in_time, "a hold bounded by {ttl:?} is to end by {bound:?}, and not sooner: {held:?}");
    until_free(harness, &client, &name).await;
}

/// C13: the work does not outlive the hold.
pub async fn c13_run_drops_the_work_at_the_loss(harness: &dyn Harness) {
    struct Dropped(tokio::sync::watch::Sender<bool>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.send_replace(true);
        }
    }
    let (client, name) = (client(harness).await, fresh_name());
    let guard = client.acquire(patient(&name, harness.ttl() * 3)).await.expect("a free lock");
    let (sender, dropped) = tokio::sync::watch::channel(false);
    let work = async {
        let _witness = Dropped(sender);
        harness.evict(&name).await;
        std::future::pending::<()>().await;
    };
    let ran = timeout(harness.limit(), guard.run(work)).await.expect("the loss is told");
    let is_told = matches!(ran, Err(LockError::Lost { reason: LostReason::Evicted, .. }));
    assert!(is_told, "a run is to tell of the loss, with its reason: {ran:?}");
    assert!(*dropped.borrow(), "the work is to be dropped at the loss");
    told_as_lost(guard.run(async {}).await);
}

/// C13: the lock is renewed for as long as the work takes.
pub async fn c13_run_renews_until_the_work_has_ended(harness: &dyn Harness) {
    let (client, name, ttl) = (client(harness).await, fresh_name(), harness.ttl() * 2);
    let guard = client.acquire(patient(&name, ttl)).await.expect("a free lock");
    let output = guard.run(async { sleep(ttl * 3 / 2).await }).await;
    let lasted = output.is_ok() && guard.is_held();
    assert!(lasted, "a hold is to be renewed until the work has ended: {output:?}");
    guard.release().await.expect("it was held to the end");
}
