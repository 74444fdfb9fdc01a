//! C33: the number of permits of a lock is that of its present holders.

use std::cell::Cell;
use std::time::Duration;

use lock_core::{Contention, Finding, LockClient, LockError, LockRequest, Order, Wait};
use tokio::time::{Instant, sleep, timeout};

use super::harness::Harness;
use super::kinds::{Asked, OF_THREE, OF_TWO, has, until_waiting};
use super::steps::{answered, client, eventually, fresh_name, patient, until_free};

/// C33: the number of permits is that of the present holders.
pub async fn c33_another_number_of_permits_is_a_conflict(harness: &dyn Harness) {
    let (holder, other, name) = (client(harness).await, client(harness).await, fresh_name());
    if !has(&harness.connect().await, OF_THREE) {
        return;
    }
    let held = holder.acquire(OF_THREE(patient(&name, harness.long_ttl()))).await.expect("free");
    let refused = other.try_acquire(OF_TWO(LockRequest::from(&name))).await;
    let is_conflict = matches!(refused, Err(LockError::Conflict { asked: 2, held: 3, .. }));
    assert!(is_conflict, "a conflict is to name both numbers: {refused:?}");
    // C14: a request that waits is told that the lock is busy.
    let wait = Wait::AtMost(harness.request_timeout());
    let seen = contention(other.acquire(OF_TWO(LockRequest::from(&name).wait(wait))).await);
    assert_eq!(seen.permits, 3, "a waiter is to learn the number of the holders");
    let state = holder.admin().inspect(&name).await.expect("an answer");
    assert_eq!(state.holders.len(), 1, "another number is to change nothing");
    eventually(harness, "a wait that ended leaves nothing in the queue", async || {
        let state = answered(harness, async || holder.admin().inspect(&name).await).await;
        state.waiters.unwrap_or(0) == 0
    })
    .await;
    held.release().await.expect("held to the end");
    // Nobody holds it: the number may change.
    let request = OF_TWO(patient(&name, harness.long_ttl()));
    other.acquire(request).await.expect("free").release().await.expect("held to the end");
}

/// C33: a deploy changes the number of permits under load. Holds with the old number overlap for as long as they come in,
/// and the new number gets in; no two numbers are held at once; and the doctor names the lock meanwhile.
pub async fn c33_another_number_of_permits_gets_in_under_load(harness: &dyn Harness) {
    let (backend, name) = (harness.connect().await, fresh_name());
    if !has(&backend, OF_THREE) || backend.capabilities().order != Order::Fifo {
        return;
    }
    let old = [client(harness).await, client(harness).await];
    let (new, observer) = (client(harness).await, client(harness).await);
    let request = |asked: Asked| asked(patient(&name, harness.long_ttl()));
    let load = Load::default();
    let deploy = async {
        eventually(harness, "the old ones overlap", async || load.granted[0].get() > 1).await;
        let guard = new.acquire(request(OF_TWO)).await.expect("its turn");
        assert_eq!(load.old.get(), 0, "two numbers at once");
        load.is_over.set(true);
        load.new.set(1);
        sleep(Duration::from_millis(20)).await;
        load.new.set(0);
        guard.release().await.expect("held to the end");
    };
    let doctor = async {
        let is_named = |finding: &Finding| finding.seen.contains("(2 and 3)");
        eventually(harness, "both numbers are seen", async || {
            let found = answered(harness, async || observer.admin().examine(&name).await).await;
            found.iter().any(is_named)
        })
        .await;
        load.is_seen.set(true);
    };
    let [one, other] = [0, 1].map(|own| load.overlaps(&old[own], request(OF_THREE), own));
    let all = async { tokio::join!(deploy, doctor, one, other) };
    timeout(harness.limit(), all).await.expect("the new number is to get in");
    until_free(harness, &new, &name).await;
}

/// Duration of a hold without relief: far longer than an acquisition.
const LONG: Duration = Duration::from_millis(300);

/// Two old clients that relieve each other, and a new one.
#[derive(Default)]
struct Load {
    /// Number of present holds with the old number, and with the new one.
    old: Cell<u32>,
    new: Cell<u32>,
    /// Number of grants to each of the old clients.
    granted: [Cell<u32>; 2],
    /// True once the doctor has seen both numbers.
    is_seen: Cell<bool>,
    /// True once the new one has had its turn.
    is_over: Cell<bool>,
}

impl Load {
    /// Acquires again and again, and holds until the other one holds too: so one of them always holds. If the other one
    /// does not come in, the hold ends after a while.
    async fn overlaps(&self, client: &LockClient, request: LockRequest, own: usize) {
        while !self.is_over.get() {
            let guard = client.acquire(request.clone()).await.expect("its turn");
            assert_eq!(self.new.get(), 0, "two numbers at once");
            self.old.set(self.old.get() + 1);
            self.granted[own].set(self.granted[own].get() + 1);
            let (other, began) = (self.granted[1 - own].get(), Instant::now());
            let is_long = || self.is_seen.get() && began.elapsed() > LONG;
            while self.granted[1 - own].get() == other && !is_long() {
                sleep(Duration::from_millis(2)).await;
            }
            self.old.set(self.old.get() - 1);
            guard.release().await.expect("held to the end");
        }
    }
}

/// C33: a request that counts as the holders do learns of a waiter that counts otherwise, since it waits behind that one.
pub async fn c33_another_number_of_permits_before_a_waiter_is_told(harness: &dyn Harness) {
    let (backend, name) = (harness.connect().await, fresh_name());
    if !has(&backend, OF_THREE) || backend.capabilities().order != Order::Fifo {
        return;
    }
    let [holder, other, behind] = [(); 3].map(|()| client(harness));
    let (holder, other, behind) = (holder.await, other.await, behind.await);
    let held = holder.acquire(OF_THREE(patient(&name, harness.long_ttl()))).await.expect("free");
    let waits = other.acquire(OF_TWO(patient(&name, harness.long_ttl())).label("other"));
    let learns = async {
        until_waiting(harness, &holder, &name, 1).await;
        let tried = behind.try_acquire(OF_THREE(LockRequest::from(&name))).await;
        assert!(matches!(tried, Ok(None)), "it counts as the holders do: {tried:?}");
        let wait = Wait::AtMost(harness.request_timeout());
        let seen = contention(behind.acquire(OF_THREE(LockRequest::from(&name).wait(wait))).await);
        let first = seen.first_waiter.as_deref().map(|(number, label)| (*number, label.as_str()));
        assert_eq!((seen.permits, first), (3, Some((2, "other"))), "{seen:?}");
        held.release().await.expect("held to the end");
    };
    let (guard, ()) = tokio::join!(waits, learns);
    guard.expect("its turn").release().await.expect("held to the end");
    until_free(harness, &holder, &name).await;
}

/// C14: returns what a request that waited was told at the end of its wait.
fn contention<T: std::fmt::Debug>(waited: Result<T, LockError>) -> Contention {
    match waited {
        Err(LockError::Timeout { contention: Some(seen), .. }) => seen,
        other => panic!("a wait is to end with its time: {other:?}"),
    }
}
