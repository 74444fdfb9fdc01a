//! C33 to C36: the holds that a lock allows beside each other, and their order.

use crate::Expect;
use lock_core::backend::DistributedLockExt;
use std::cell::Cell;

use futures_util::future::join_all;
use lock_core::backend::{Attempt, Claim, Extension, Grant, Release};
use lock_core::{
    DistributedLock, FencingToken, Holder, Lease, LockClient, LockError, LockGuard, LockName,
    LockRequest, Order, Wait,
};
use tokio::time::timeout;

use super::harness::Harness;
use super::steps::{answered, client, eventually, fresh_name, patient, until_free};

pub(super) type Asked = fn(LockRequest) -> LockRequest;

const EXCLUSIVE: Asked = |request| request;
pub(super) const SHARED: Asked = LockRequest::shared;
pub(super) const OF_TWO: Asked = |request| request.permits(1, 2);
pub(super) const OF_THREE: Asked = |request| request.permits(1, 3);
const TWO_OF_THREE: Asked = |request| request.permits(2, 3);

pub(super) fn claim(harness: &dyn Harness, name: &LockName, asked: Asked) -> Claim {
    asked(patient(name, harness.long_ttl())).claim().expect("a good claim")
}

pub(super) fn has(backend: &dyn DistributedLock, asked: Asked) -> bool {
    let claim = asked(LockRequest::new("any")).claim().expect("a good claim");
    backend.capabilities().kinds.has(claim.kind)
}

/// Returns the grant of a claim that fits; `None` if it must wait.
async fn tried(backend: &dyn DistributedLock, claim: &Claim) -> Option<Grant> {
    match backend.acquire(claim, None).await.expect("an answer") {
        Attempt::Granted(grant) => Some(grant),
        Attempt::Busy(_) => None,
    }
}

pub(super) async fn granted(backend: &dyn DistributedLock, claim: &Claim) -> Grant {
    tried(backend, claim).await.expect("the server is to grant what fits")
}

/// Asks to extend the hold that `claim` was granted.
pub(super) async fn extended(
    backend: &dyn DistributedLock,
    claim: &Claim,
    grant: &Grant,
) -> Extension {
    let renewal = super::steps::renewal(claim, grant.token);
    backend.extend_one(&renewal).await.expect("an answer")
}

pub(super) async fn holders(backend: &dyn DistributedLock, name: &LockName) -> Vec<Holder> {
    backend.expect_admin().inspect(name).await.expect("an answer").holders
}

pub(super) async fn release_all(backend: &dyn DistributedLock, claims: &[Claim]) {
    for claim in claims {
        let released = backend.release(&claim.name, claim.owner).await.expect("an answer");
        assert_eq!(released, Release::Released, "a {} hold is to be released", claim.kind);
    }
}

/// Waits until `many` claims wait for the lock, if the backend reports their number.
pub(super) async fn until_waiting(
    harness: &dyn Harness,
    observer: &LockClient,
    name: &LockName,
    many: u64,
) {
    eventually(harness, "the requests wait", async || {
        let state = answered(harness, async || observer.admin().inspect(name).await).await;
        state.waiters.is_none_or(|waiters| waiters >= many)
    })
    .await;
}

/// C30, C33: a kind that the backend lacks is a typed error, and nothing is sent.
pub async fn c33_a_kind_that_a_backend_has_not_got_is_refused(harness: &dyn Harness) {
    let (client, name) = (client(harness).await, fresh_name());
    for asked in [SHARED, OF_TWO] {
        let request = asked(LockRequest::from(&name).wait(Wait::Never));
        let has = client.capabilities().kinds.has(request.claim().expect("a good claim").kind);
        match client.acquire(request).await {
            Ok(guard) => {
                assert!(has, "it is to say that it has this kind: {guard:?}");
                guard.release().await.expect("held to the end");
            }
            Err(LockError::Unsupported { .. }) => assert!(!has, "it says that it has this kind"),
            Err(error) => panic!("a kind is granted, or unsupported: {error}"),
        }
    }
}

/// C33: the kinds that fit beside each other.
pub async fn c33_a_hold_is_granted_if_it_fits(harness: &dyn Harness) {
    // All pairs use one lock, since a store may treat a lock that it does not know in another way.
    let (backend, name) = (harness.connect().await, fresh_name());
    let pairs = [
        (EXCLUSIVE, EXCLUSIVE, false),
        (EXCLUSIVE, SHARED, false),
        (EXCLUSIVE, OF_TWO, false),
        (SHARED, EXCLUSIVE, false),
        (SHARED, SHARED, true),
        (SHARED, OF_TWO, false),
        (OF_TWO, EXCLUSIVE, false),
        (OF_TWO, SHARED, false),
        (OF_TWO, OF_TWO, true),
    ];
    for (held, asked, fits) in pairs {
        if !has(&backend, held) || !has(&backend, asked) {
            continue;
        }
        let (first, second) = (claim(harness, &name, held), claim(harness, &name, asked));
        granted(&backend, &first).await;
        let beside = tried(&backend, &second).await;
        let (held, asked) = (first.kind, second.kind);
        assert_eq!(beside.is_some(), fits, "whether {asked} is granted beside {held}");
        backend.withdraw(&name, &[second.owner]).await.expect("an answer");
        release_all(&backend, &[first]).await;
    }
}

/// C33: at most n holds of n permits.
pub async fn c33_no_more_holds_than_permits(harness: &dyn Harness) {
    let (backend, name) = (harness.connect().await, fresh_name());
    if !has(&backend, OF_THREE) {
        return;
    }
    let claims: Vec<Claim> = (0..3).map(|_| claim(harness, &name, OF_THREE)).collect();
    for claim in &claims {
        granted(&backend, claim).await;
    }
    let fourth = claim(harness, &name, OF_THREE);
    assert!(tried(&backend, &fourth).await.is_none(), "there are three permits, and no fourth");
    release_all(&backend, &claims[1..2]).await;
    granted(&backend, &fourth).await;
    release_all(&backend, &[claims[0].clone(), claims[2].clone(), fourth]).await;
}

/// C34: a claim that would fit waits while another waits before it.
pub async fn c34_nobody_passes_those_who_wait(harness: &dyn Harness) {
    let backend = harness.connect().await;
    for (held, waits, passes) in [
        (SHARED, EXCLUSIVE, SHARED),
        (TWO_OF_THREE, TWO_OF_THREE, OF_THREE),
        (OF_THREE, OF_TWO, OF_THREE),
    ] {
        if !has(&backend, held) || backend.capabilities().order != Order::Fifo {
            continue;
        }
        let name = fresh_name();
        let clients = [client(harness).await, client(harness).await, client(harness).await];
        let request = |asked: Asked| asked(patient(&name, harness.long_ttl()));
        let first = clients[0].acquire(request(held)).await.expect("free");
        let released = Cell::new(false);
        let second = async {
            let guard = clients[1].acquire(request(waits)).await.expect("its turn");
            assert!(released.get(), "what does not fit is to wait");
            guard
        };
        let rest = async {
            until_waiting(harness, &clients[2], &name, 1).await;
            let tried = clients[2].try_acquire(request(passes)).await.expect("an answer");
            assert!(tried.is_none(), "a request that fits is to wait behind one that waits");
            released.set(true);
            first.release().await.expect("held to the end");
        };
        let (guard, ()) = tokio::join!(second, rest);
        guard.release().await.expect("held to the end");
        until_free(harness, &clients[2], &name).await;
    }
}

/// C34: a release grants to all at the head that fit together, and to nobody behind them.
pub async fn c34_a_release_lets_in_all_that_fit(harness: &dyn Harness) {
    let backend = harness.connect().await;
    for readers in [SHARED, OF_THREE].into_iter().filter(|asked| has(&backend, *asked)) {
        let (name, observer) = (fresh_name(), client(harness).await);
        let writer = client(harness).await;
        let first = writer.acquire(patient(&name, harness.long_ttl())).await.expect("free");
        let clients = join_all((0..3).map(|_| client(harness))).await;
        let request = || readers(patient(&name, harness.long_ttl()));
        let waiting = join_all(clients.iter().map(|client| client.acquire(request())));
        let release = async {
            until_waiting(harness, &observer, &name, 3).await;
            first.release().await.expect("held to the end");
        };
        // Each keeps its hold until all hold the lock.
        let (guards, ()) = tokio::join!(timeout(harness.limit(), waiting), release);
        let guards = guards.expect("all that fit are to get in together");
        let guards: Vec<LockGuard> =
            guards.into_iter().map(|guard| guard.expect("its turn")).collect();
        assert!(guards.iter().all(LockGuard::is_held), "they hold it beside each other");
        // C36: a pushed hold knows its slots too.
        let expected: usize = guards.iter().map(|guard| usize::from(guard.kind().slots())).sum();
        let mut slots: Vec<u16> = guards.iter().flat_map(LockGuard::slots).collect();
        slots.sort_unstable();
        slots.dedup();
        assert_eq!(slots.len(), expected, "each is to have slots of its own: {slots:?}");
        let writer = writer.try_acquire(patient(&name, harness.long_ttl())).await;
        assert!(writer.expect("an answer").is_none(), "a writer waits for all of them");
        for guard in guards {
            guard.release().await.expect("held to the end");
        }
        until_free(harness, &observer, &name).await;
    }
}

/// C22, C35: each grant has its own token, from the lock's one counter.
pub async fn c35_each_grant_has_its_own_token(harness: &dyn Harness) {
    let (backend, name) = (harness.connect().await, fresh_name());
    let mut last: Option<FencingToken> = None;
    let all = [SHARED, EXCLUSIVE, OF_TWO, SHARED];
    for asked in all.into_iter().filter(|asked| has(&backend, *asked)) {
        let claims: Vec<Claim> = (0..2).map(|_| claim(harness, &name, asked)).collect();
        for claim in &claims {
            let Some(grant) = tried(&backend, claim).await else { continue };
            assert!(
                Some(grant.token) > last,
                "each grant is to have a greater token than all before"
            );
            last = Some(grant.token);
        }
        for claim in &claims {
            backend.withdraw(&name, &[claim.owner]).await.expect("an answer");
        }
    }
}

/// C36: a hold has the lowest free slots, which no other has, for its whole life.
pub async fn c36_a_permit_is_a_slot(harness: &dyn Harness) {
    let (backend, name) = (harness.connect().await, fresh_name());
    if !has(&backend, OF_THREE) {
        return;
    }
    let (first, second) = (claim(harness, &name, OF_THREE), claim(harness, &name, OF_THREE));
    let slots = |grant: &Grant| grant.slots.as_slice().to_vec();
    assert_eq!(slots(&granted(&backend, &first).await), [0], "the lowest slot is free");
    let grant = granted(&backend, &second).await;
    assert_eq!(slots(&grant), [1], "the lowest slot that is free");
    release_all(&backend, &[first]).await;
    let still = extended(&backend, &second, &grant).await;
    assert!(matches!(still, Extension::Extended(_)), "it goes on: {still:?}");
    let repeated = granted(&backend, &second).await;
    assert_eq!((slots(&repeated), repeated.token), (vec![1], grant.token), "a hold keeps its slot");
    let two = claim(harness, &name, TWO_OF_THREE);
    assert_eq!(slots(&granted(&backend, &two).await), [0, 2], "the slots that are free");
    let shown = holders(&backend, &name).await;
    let mut shown: Vec<Vec<u16>> =
        shown.iter().map(|holder| holder.slots.as_slice().to_vec()).collect();
    shown.sort();
    assert_eq!(shown, [vec![0, 2], vec![1]], "an inspection is to show the slots");
    release_all(&backend, &[second, two]).await;
}

/// C36: a lease takes its slots to another guard.
pub async fn c36_a_detached_hold_keeps_its_slots(harness: &dyn Harness) {
    let (one, other, name) = (client(harness).await, client(harness).await, fresh_name());
    if !has(&harness.connect().await, OF_THREE) {
        return;
    }
    let request = || TWO_OF_THREE(patient(&name, harness.long_ttl()));
    let guard = one.acquire(request()).await.expect("free");
    let (slots, kind) = (guard.slots(), guard.kind());
    let text = guard.detach().expect("held").export();
    let guard = other.attach(Lease::import(&text).expect("its own text")).await.expect("held");
    assert_eq!((guard.slots(), guard.kind()), (slots, kind), "a lease keeps its slots and kind");
    guard.release().await.expect("held to the end");
    until_free(harness, &one, &name).await;
}
