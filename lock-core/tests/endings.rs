//! Guards, clients and runtimes that end at the worst moment leave nothing behind.

#![allow(clippy::expect_used, clippy::panic)]

use std::hint::spin_loop;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use futures_util::FutureExt;
use lock_core::{
    ClientOptions, DistributedLock, Lease, LockAdmin, LockClient, LockGuard, LockName, LockRequest,
    MemoryBackend,
};
use lock_testkit::{Fault, Faulty, Operation};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::{Instant, sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn faulty_client() -> (LockClient, Faulty, MemoryBackend) {
    let store = MemoryBackend::new();
    let faulty = Faulty::new(Arc::new(store.clone()));
    (LockClient::new(faulty.clone()), faulty, store)
}

fn is_held(store: &MemoryBackend) -> bool {
    let name = LockName::new("a").expect("a name");
    let state = store.inspect(&name).now_or_never().expect("memory answers at once");
    state.expect("an answer").holder().is_some()
}

/// C20: a shutdown during the drop of a guard on another thread returns once the hold is released.
#[test]
fn c20_a_shutdown_waits_for_a_guard_that_is_being_dropped() {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let _entered = runtime.enter();
    for round in 0..400 {
        let store = MemoryBackend::new();
        let client = LockClient::new(store.clone());
        let request = LockRequest::new("a").ttl(60 * SECOND);
        let guard = runtime.block_on(client.acquire(request)).expect("a free lock");
        let (signal, go) = (guard.lost_signal(), Arc::new(AtomicBool::new(false)));
        let dropping = thread::spawn({
            let (go, handle) = (go.clone(), Handle::current());
            move || {
                let _entered = handle.enter();
                while !go.load(Ordering::Acquire) {
                    spin_loop();
                }
                drop(guard);
            }
        });
        {
            let mut closing = pin!(client.shutdown());
            go.store(true, Ordering::Release);
            while signal.reason().is_none() {
                spin_loop();
            }
            (0..round).for_each(|_| spin_loop());
            let mut context = Context::from_waker(Waker::noop());
            while closing.as_mut().poll(&mut context).is_pending() {}
        }
        assert!(!is_held(&store), "the shutdown returned in round {round}, and the lock is held");
        dropping.join().expect("no panic");
    }
}

/// C20: a lock that was released long ago does not make a shutdown wait for an acquisition that nobody polls.
#[tokio::test(start_paused = true)]
async fn c20_a_shutdown_waits_no_longer_for_what_is_given_back() {
    let store = MemoryBackend::new();
    let (other, client) = (LockClient::new(store.clone()), LockClient::new(store));
    let _held = other.acquire(LockRequest::new("b").ttl(7200 * SECOND)).await.expect("free");
    let guard = client.acquire(LockRequest::new("a").ttl(3600 * SECOND)).await.expect("free");
    drop(guard);
    while client.admin().inspect("a").await.expect("an answer").holder().is_some() {
        sleep(SECOND / 10).await;
    }
    let mut waiting = pin!(client.acquire("b"));
    assert!(timeout(SECOND, &mut waiting).await.is_err(), "two holders");
    let asked = Instant::now();
    client.shutdown().await;
    assert!(asked.elapsed() < 3 * SECOND, "it took {:?}", asked.elapsed());
}

/// C19, C20: after a shutdown, no request is left that could take the lock.
#[tokio::test(start_paused = true)]
async fn c19_a_shutdown_refuses_what_comes_late() {
    let (client, faulty, store) = faulty_client();
    faulty.once(Operation::Acquire, Fault::Silence);
    let guard = client.acquire(LockRequest::new("a").ttl(60 * SECOND)).await.expect("a second try");
    client.shutdown().await;
    let late = store.acquire(&faulty.last_claim().expect("it was tried"), None).await;
    assert!(late.is_err(), "{late:?}");
    drop(guard);
}

/// C20: a shutdown does the work for which the client's own runtime was woken, if nobody drives that runtime any
/// more.
#[test]
fn c20_a_shutdown_does_the_work_of_a_runtime_that_stands_still() {
    let (still, busy, store) = (runtime(), runtime(), MemoryBackend::new());
    let (client, other) = (LockClient::new(store.clone()), LockClient::new(store));
    let request = LockRequest::new("b").ttl(60 * SECOND);
    let _held = busy.block_on(other.acquire(request)).expect("a free lock");
    still.block_on(async {
        client.acquire("a").await.expect("free").release().await.expect("held to the end");
        // The tasks of the client are idle now.
        sleep(SECOND / 20).await;
    });
    busy.block_on(async {
        let asked = Instant::now();
        let waiting = client.acquire("b");
        let closing = async {
            while other.admin().inspect("b").await.expect("an answer").waiters != Some(1) {
                sleep(SECOND / 100).await;
            }
            client.shutdown().await;
        };
        let (closed, ()) = tokio::join!(waiting, closing);
        assert!(closed.is_err() && asked.elapsed() < 10 * SECOND, "{:?}", asked.elapsed());
        assert_eq!(other.admin().inspect("b").await.expect("an answer").waiters, Some(0));
    });
}

/// C47, S8: a hold that was in force when its release began is not lost, even if the lease ended before the
/// server's answer arrived.
#[tokio::test(start_paused = true)]
async fn c47_a_release_that_outlasts_its_lease_is_no_loss() {
    let (client, faulty, _) = faulty_client();
    let guard = client.acquire(LockRequest::new("a").ttl(SECOND)).await.expect("a free lock");
    faulty.once(Operation::Release, Fault::Silence);
    guard.release().await.expect("it was held when the release began");
}

/// C10, S5: a guard that lost its hold does not affect the hold of a later guard of the same lease.
#[tokio::test(start_paused = true)]
async fn c10_a_lost_guard_leaves_the_next_one_of_its_lease_alone() {
    let (client, faulty, store) = faulty_client();
    let lease =
        LockClient::new(store.clone()).acquire(LockRequest::new("a").ttl(10 * SECOND)).await;
    let text = lease.expect("a free lock").detach().expect("held").export();
    for releases in [false, true] {
        let lost = client.attach(Lease::import(&text).expect("a lease")).await.expect("held");
        // The server extends the hold, but the answer is lost: so the server keeps the hold longer than this
        // client believes.
        faulty.always(Operation::Extend, Fault::SilenceAfter);
        lost.lost().await;
        faulty.heal();
        let next = client.attach(Lease::import(&text).expect("a lease")).await.expect("held");
        match releases {
            true => drop(lost.release_confirmed().await.expect("an answer")),
            false => drop(lost),
        }
        sleep(SECOND / 10).await;
        assert!(next.is_held() && is_held(&store), "the later hold was ended");
        let _ = next.detach().expect("held");
    }
}

/// Returns a guard that lost its lease while the server still has the hold.
async fn lost_guard(client: &LockClient, faulty: &Faulty) -> (LockGuard, Lease) {
    let request = LockRequest::new("a").ttl(10 * SECOND);
    let lease = client.acquire(request).await.expect("a free lock").detach().expect("held");
    let lost = client.attach(lease.clone()).await.expect("held");
    faulty.always(Operation::Extend, Fault::SilenceAfter);
    lost.lost().await;
    faulty.heal();
    (lost, lease)
}

/// C10, S5: a lease that a lost guard is giving back is not attached, or it is not given back.
#[tokio::test(start_paused = true)]
async fn c10_a_lease_that_is_given_back_is_not_attached() {
    let (client, faulty, store) = faulty_client();
    for _ in 0..3 {
        let (lost, lease) = lost_guard(&client, &faulty).await;
        faulty.always(Operation::Release, Fault::Refused);
        drop(lost);
        // The janitor alone knows of the lease by then.
        sleep(SECOND / 5).await;
        faulty.heal();
        let next = client.attach(lease).await;
        sleep(SECOND).await;
        assert_eq!(next.as_ref().is_ok_and(LockGuard::is_held), is_held(&store), "{next:?}");
        if let Ok(next) = next {
            next.release().await.expect("held to the end");
        }
    }
}

/// S5: a lost guard gives nothing back if its lease was attached again, and handed on.
#[tokio::test(start_paused = true)]
async fn s5_a_lost_guard_leaves_a_lease_alone_that_was_handed_on() {
    let (client, faulty, store) = faulty_client();
    let (lost, lease) = lost_guard(&client, &faulty).await;
    let lease = client.attach(lease).await.expect("held").detach().expect("held");
    let next = LockClient::new(store.clone()).attach(lease).await.expect("held");
    drop(lost);
    sleep(SECOND / 10).await;
    assert!(next.is_held() && is_held(&store), "the lost guard gave it back");
}

/// C12: a client with its own runtime renews there, even if the runtime that acquired is gone.
#[test]
fn c12_a_hold_is_renewed_on_the_runtime_that_the_client_was_given() {
    let lasting = Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let lasting = lasting.expect("a runtime");
    let store = MemoryBackend::new();
    let options = ClientOptions::new().runtime(lasting.handle().clone());
    let locks = LockClient::with_options(store, options);
    let request = LockRequest::new("a").ttl(SECOND * 6);
    let guard = runtime().block_on(locks.acquire(request)).expect("a free lock");
    let granted = guard.deadline();
    let renewed = async {
        while guard.deadline() == granted {
            sleep(SECOND / 100).await;
        }
    };
    runtime().block_on(async { timeout(SECOND * 30, renewed).await }).expect("it is renewed");
    assert!(guard.is_held());
    drop(guard);
    runtime().block_on(locks.shutdown());
}

/// S5: a lost guard gives nothing back during an attachment of its lease, also if the answer to that is on its way.
#[tokio::test(start_paused = true)]
async fn s5_a_lost_guard_leaves_a_lease_alone_that_is_being_attached() {
    let (client, faulty, store) = faulty_client();
    let (lost, lease) = lost_guard(&client, &faulty).await;
    faulty.once(Operation::Extend, Fault::Late(SECOND / 10));
    let drops = async {
        sleep(SECOND / 100).await;
        drop(lost);
    };
    let (attached, ()) = tokio::join!(client.attach(lease), drops);
    assert!(attached.expect("held").is_held() && is_held(&store), "the lost guard gave it back");
}

/// S5: a lease whose guard is being released is not attached.
#[tokio::test(start_paused = true)]
async fn s5_a_lease_that_is_being_released_is_not_attached() {
    let (client, faulty, _) = faulty_client();
    let lease = client.acquire("a").await.expect("a free lock").detach().expect("held");
    let guard = client.attach(lease.clone()).await.expect("held");
    faulty.once(Operation::Release, Fault::RequestLost);
    let (released, attached) = tokio::join!(guard.release(), client.attach(lease));
    released.expect("held to the end");
    assert!(attached.is_err_and(|error| error.is_lost()), "two believe");
}

/// C17: the wait for a late runtime is a part of the time of an attachment.
#[test]
fn c17_an_attachment_waits_for_a_late_runtime_within_its_limit() {
    let (late, busy) = (runtime(), runtime());
    let (limit, store) = (SECOND * 4, Faulty::new(Arc::new(MemoryBackend::new())));
    let options = ClientOptions::new().request_timeout(limit);
    let client = LockClient::with_options(store.clone(), options);
    let lease = late.block_on(client.acquire("a")).expect("a free lock").detach().expect("held");
    store.always(Operation::Extend, Fault::Silence);
    thread::sleep(SECOND * 5 / 2);
    let later = thread::spawn(move || {
        thread::sleep(SECOND * 3 / 2);
        late.block_on(async { sleep(SECOND * 6).await });
    });
    let began = Instant::now();
    let refused = busy.block_on(client.attach(lease)).expect_err("no answer");
    let took = began.elapsed();
    later.join().expect("no panic");
    assert!(refused.is_transient() && took < limit + SECOND, "{refused} after {took:?}");
}

/// S5: two calls that attach one lease do not both get it, however late the answer to one of them comes.
#[tokio::test(start_paused = true)]
async fn s5_a_lease_is_attached_by_one_call_at_a_time() {
    let (client, faulty, store) = faulty_client();
    let lease = client.acquire("a").await.expect("a free lock").detach().expect("held");
    faulty.once(Operation::Extend, Fault::Late(SECOND / 10));
    let second = async {
        sleep(SECOND / 100).await;
        if let Ok(guard) = client.attach(lease.clone()).await {
            guard.release().await.expect("held to the end");
        }
    };
    let (first, ()) = tokio::join!(client.attach(lease.clone()), second);
    assert_eq!(first.as_ref().is_ok_and(LockGuard::is_held), is_held(&store), "{first:?}");
}
