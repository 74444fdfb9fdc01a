//! C10 to C13: extending, renewing, and not doing so any more.

use tokio::time::{Instant, sleep, timeout};

use super::{
    Fault, Harness, LIMIT, Operation, REQUEST_TIMEOUT, SLACK, claim, client, eventually,
    faulty_client, fresh_name, patient, until_free,
};
use lock_core::backend::{Attempt, Extension, Grant, Release, Renewal};
use lock_core::{Lease, LockError, LockRequest, LostReason, Ttl};

/// C10: extending what is lost is `Lost`, for ever, and makes nothing anew.
pub async fn c10_lost_is_final(harness: &dyn Harness) {
    let (client, other) = (client(harness).await, client(harness).await);
    let (name, ttl) = (fresh_name(), harness.ttl() * 10);
    let guard = client.acquire(patient(&name, ttl)).await.expect("a free lock");
    harness.evict(&name).await;
    let lost = guard.extend(ttl).await;
    assert!(matches!(lost, Err(LockError::Lost { .. })), "{lost:?}");
    assert!(!guard.is_held());
    until_free(&other, &name).await;

    // Neither does the server make it anew while another holds it, or afterwards.
    let backend = harness.connect().await;
    let lease = client.acquire(patient(&name, ttl)).await.expect("free").detach().expect("held");
    let renewal = Renewal::new(&lease, Ttl::new(ttl).expect("a good TTL"));
    harness.evict(&name).await;
    let next = other.acquire(patient(&name, ttl)).await.expect("it is free");
    assert_eq!(backend.extend(&renewal).await.expect("an answer"), Extension::Lost);
    assert!(next.is_held());
    next.release().await.expect("an answer");
    assert_eq!(backend.extend(&renewal).await.expect("an answer"), Extension::Lost);
    until_free(&other, &name).await;
    assert!(matches!(client.attach(lease).await, Err(LockError::Lost { .. })));
    assert!(matches!(guard.extend(ttl).await, Err(LockError::Lost { .. })));
}

/// C10: a lost lock that a late request of the same owner takes once more is another hold, and the
/// first stays lost (S5).
pub async fn c10_a_later_grant_to_the_same_owner_is_another_hold(harness: &dyn Harness) {
    let (backend, name) = (harness.connect().await, fresh_name());
    let claim = claim(&name, harness.ttl() * 10);
    let mut holds = Vec::new();
    for _ in 0..2 {
        let attempt = backend.try_acquire(&claim, None).await.expect("an answer");
        let Attempt::Granted(Grant { token, .. }) = attempt else { panic!("busy: {attempt:?}") };
        let (owner, ttl) = (claim.owner.expose(), claim.ttl.as_millis());
        let lease = Lease::import(&format!("lease1:{owner}:{token}:{ttl}:{name}"));
        holds.push(Renewal::new(&lease.expect("a lease"), claim.ttl));
        if holds.len() == 1 {
            harness.evict(&name).await;
        }
    }
    let [first, second] = &holds[..] else { unreachable!("two holds") };
    assert!(second.token > first.token);
    assert_eq!(backend.extend(first).await.expect("an answer"), Extension::Lost);
    let extended = backend.extend(second).await.expect("an answer");
    assert!(matches!(extended, Extension::Extended(_)), "{extended:?}");
    assert_eq!(backend.release(&name, claim.owner).await.expect("an answer"), Release::Released);
}

/// C10: extensions that overtake each other leave the hold no shorter than the longest of them.
pub async fn c10_extending_twice_at_once_is_safe(harness: &dyn Harness) {
    let (client, name) = (client(harness).await, fresh_name());
    let (short, long) = (harness.ttl(), harness.ttl() * 20);
    let guard = client.acquire(patient(&name, short)).await.expect("a free lock");
    let (one, two, three) =
        tokio::join!(guard.extend(short), guard.extend(long), guard.extend(short));
    one.and(two).and(three).expect("all of them hold");
    let holder = client.inspect(&name).await.expect("an answer").holder.expect("held");
    let left = holder.ttl_left.expect("it has a TTL");
    assert!(left > long / 2, "the server keeps it for {left:?} only");
    guard.release().await.expect("an answer");
}

/// C10: asking for less than is left takes nothing away, and the hold is renewed as before.
pub async fn c10_a_shorter_extension_keeps_the_hold(harness: &dyn Harness) {
    let (client, name, ttl) = (client(harness).await, fresh_name(), harness.ttl());
    let guard = client.acquire(patient(&name, ttl * 3)).await.expect("a free lock");
    guard.extend(ttl).await.expect("held");
    let end = Instant::now() + ttl * 5;
    while Instant::now() < end {
        assert!(guard.is_held(), "lost: {:?}", guard.lost_signal());
        sleep(ttl / 10).await;
    }
    guard.release().await.expect("it was held to the end");
}

/// C10: an extension for less than the TTL is for proof, and makes no renewal shorter.
pub async fn c10_an_extension_for_proof_shortens_no_renewal(harness: &dyn Harness) {
    let (client, name, ttl) = (client(harness).await, fresh_name(), harness.ttl() * 6);
    let guard = client.acquire(patient(&name, ttl)).await.expect("a free lock");
    guard.extend(harness.ttl()).await.expect("held");
    let proven = guard.deadline();
    eventually("it is renewed", async || guard.deadline() != proven).await;
    assert!(guard.remaining() > ttl / 2, "renewed for {:?} only", guard.remaining());
    let holder = client.inspect(&name).await.expect("an answer").holder.expect("held");
    let left = holder.ttl_left.expect("it has a TTL");
    assert!(left > ttl / 2, "the server keeps it for {left:?} only");
    guard.release().await.expect("an answer");
}

/// C10: a lease is under one guard of a client at a time: else the second would believe in it after the
/// first has released it.
pub async fn c10_a_lease_is_attached_once(harness: &dyn Harness) {
    let (client, name, ttl) = (client(harness).await, fresh_name(), harness.ttl() * 10);
    let lease = client.acquire(patient(&name, ttl)).await.expect("free").detach().expect("held");
    let first = client.attach(lease.clone()).await.expect("held");
    let second = client.attach(lease.clone()).await;
    assert!(matches!(second, Err(LockError::AlreadyAttached { .. })), "{second:?}");
    assert!(first.is_held());
    first.release().await.expect("an answer");
    let late = client.attach(lease).await;
    assert!(matches!(late, Err(LockError::Lost { .. })), "{late:?}");
    until_free(&client, &name).await;
}

/// C11: those who watch the lock have stopped before the server hears of the release.
pub async fn c11_not_held_from_the_start_of_the_release(harness: &dyn Harness) {
    let (client, faulty) = faulty_client(harness).await;
    let name = fresh_name();
    let guard = client.acquire(patient(&name, harness.ttl() * 10)).await.expect("a free lock");
    let signal = guard.lost_signal();
    faulty.once(Operation::Release, Fault::Late(SLACK));
    let release = tokio::spawn(guard.release());
    eventually("the release is under way", async || faulty.calls(Operation::Release) > 0).await;
    assert_eq!(signal.reason(), Some(LostReason::Released));
    release.await.expect("no panic").expect("it was held to the end");
}

/// C11, S6: a renewal that was in flight at the release changes nothing, and none follows.
pub async fn c11_no_renewal_brings_a_released_lock_back(harness: &dyn Harness) {
    let (client, faulty) = faulty_client(harness).await;
    let (name, ttl) = (fresh_name(), harness.ttl());
    for _ in 0..3 {
        faulty.once(Operation::ExtendAll, Fault::Late(ttl / 8));
        let before = faulty.calls(Operation::ExtendAll);
        let guard = client.acquire(patient(&name, ttl)).await.expect("a free lock");
        let signal = guard.lost_signal();
        eventually("a renewal is in flight", async || faulty.calls(Operation::ExtendAll) > before)
            .await;
        guard.release().await.expect("an answer");
        let after = faulty.calls(Operation::ExtendAll);
        until_free(&client, &name).await;
        // Two periods in which a renewal would have come.
        sleep(ttl).await;
        assert_eq!(faulty.calls(Operation::ExtendAll), after, "renewed after the release");
        assert_eq!(signal.reason(), Some(LostReason::Released));
        assert_eq!(client.inspect(&name).await.expect("an answer").holder, None);
    }
}

/// C12: a hold lasts for as long as its guard lives.
pub async fn c12_a_hold_is_renewed_past_its_ttl(harness: &dyn Harness) {
    let (client, other) = (client(harness).await, client(harness).await);
    let (name, ttl) = (fresh_name(), harness.ttl());
    let guard = client.acquire(patient(&name, ttl)).await.expect("a free lock");
    let end = Instant::now() + ttl * 3;
    while Instant::now() < end {
        assert!(guard.is_held(), "lost: {:?}", guard.lost_signal());
        assert!(other.try_acquire(&name).await.expect("an answer").is_none(), "two holders");
        sleep(ttl / 10).await;
    }
    guard.release().await.expect("it was held to the end");
}

/// C12: a grant that took most of its TTL to arrive is renewed before the rest is over.
pub async fn c12_a_slow_grant_is_renewed_in_time(harness: &dyn Harness) {
    let (client, faulty) = faulty_client(harness).await;
    let (name, ttl) = (fresh_name(), harness.ttl());
    faulty.once(Operation::TryAcquire, Fault::Late((ttl * 2 / 3).min(REQUEST_TIMEOUT / 3)));
    let guard = client.acquire(patient(&name, ttl)).await.expect("a free lock");
    let end = Instant::now() + ttl * 2;
    while Instant::now() < end {
        assert!(guard.is_held(), "lost: {:?}", guard.lost_signal());
        sleep(ttl / 10).await;
    }
    guard.release().await.expect("an answer");
}

/// C12: many holds are renewed in few requests.
pub async fn c12_renewals_go_in_batches(harness: &dyn Harness) {
    const HOLDS: usize = 250;
    let (client, faulty) = faulty_client(harness).await;
    let (tag, ttl) = (fresh_name(), harness.ttl() * 6);
    let mut guards = Vec::new();
    for i in 0..HOLDS {
        let request = LockRequest::new(format!("{tag}-{i}")).ttl(ttl);
        guards.push(client.acquire(request).await.expect("a free lock"));
    }
    let first: Vec<_> = guards.iter().map(|guard| guard.deadline()).collect();
    eventually("all are renewed", async || {
        guards.iter().zip(&first).all(|(guard, first)| guard.deadline() != *first)
    })
    .await;
    let requests = faulty.calls(Operation::ExtendAll);
    assert!(requests <= HOLDS / 10, "{requests} requests to renew {HOLDS} holds");
    assert!(guards.iter().all(|guard| guard.is_held()));
    client.shutdown().await;
}

/// C12: a hold that failed to renew in one way or another is renewed all the same, and so is the
/// next hold of the same name.
pub async fn c12_renewing_survives_errors(harness: &dyn Harness) {
    let (client, faulty) = faulty_client(harness).await;
    let (name, ttl) = (fresh_name(), harness.ttl() * 2);
    for fault in [Fault::Silence, Fault::SilenceAfter, Fault::Refused] {
        faulty.once(Operation::ExtendAll, fault);
        let guard = client.acquire(patient(&name, ttl)).await.expect("a free lock");
        let first = guard.deadline();
        eventually("it is renewed", async || guard.deadline() != first).await;
        assert!(guard.is_held(), "lost after {fault:?}");
        guard.release().await.expect("an answer");
    }
}

/// C12: a hold that the server will not extend costs the others of its batch nothing.
pub async fn c12_one_refused_renewal_costs_no_other(harness: &dyn Harness) {
    let (client, faulty) = faulty_client(harness).await;
    let (names, ttl) = ([fresh_name(), fresh_name(), fresh_name()], harness.ttl());
    let mut guards = Vec::new();
    for name in &names {
        guards.push(client.acquire(patient(name, ttl)).await.expect("a free lock"));
    }
    faulty.refuse_to_extend(&names[1]);
    let reason = timeout(LIMIT, guards[1].lost()).await.expect("its deadline comes");
    assert_eq!(reason, LostReason::Expired);
    sleep(ttl).await;
    assert!(guards[0].is_held() && guards[2].is_held(), "{guards:?}");
}

/// C13: a bounded hold is not renewed beyond its bound.
pub async fn c13_max_hold_ends_renewing(harness: &dyn Harness) {
    let (client, name, ttl) = (client(harness).await, fresh_name(), harness.ttl());
    let asked = Instant::now();
    let guard = client.acquire(patient(&name, ttl).max_hold(ttl)).await.expect("a free lock");
    let reason = timeout(LIMIT, guard.lost()).await.expect("it ends");
    assert_eq!(reason, LostReason::Expired);
    let held = asked.elapsed();
    assert!(held > ttl && held < ttl * 2 + SLACK, "held for {held:?} at a TTL of {ttl:?}");
    until_free(&client, &name).await;
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
    let guard = client.acquire(patient(&name, harness.ttl())).await.expect("a free lock");
    let (sender, dropped) = tokio::sync::watch::channel(false);
    let work = async {
        let _witness = Dropped(sender);
        harness.evict(&name).await;
        std::future::pending::<()>().await;
    };
    let ran = timeout(LIMIT, guard.run(work)).await.expect("the loss is told");
    assert!(matches!(ran, Err(LockError::Lost { reason: LostReason::Evicted, .. })), "{ran:?}");
    assert!(*dropped.borrow(), "the work goes on after the loss");
    assert!(matches!(guard.run(async {}).await, Err(LockError::Lost { .. })));
}

/// C13: the lock is renewed for as long as the work takes.
pub async fn c13_run_renews_until_the_work_has_ended(harness: &dyn Harness) {
    let (client, name, ttl) = (client(harness).await, fresh_name(), harness.ttl());
    let guard = client.acquire(patient(&name, ttl)).await.expect("a free lock");
    let output = guard.run(async { sleep(ttl * 2).await }).await;
    assert!(output.is_ok() && guard.is_held());
    guard.release().await.expect("it was held to the end");
}
