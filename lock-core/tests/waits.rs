//! Waits on a slow or silent server, and guards that are dropped meanwhile.

#![allow(clippy::expect_used, clippy::panic)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use lock_core::{ClientOptions, LockClient, LockError, LockRequest, MemoryBackend, Wait};
use lock_testkit::{Fault, Faulty, Operation};
use tokio::time::{Instant, sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);

fn faulty_client() -> (LockClient, Faulty) {
    let faulty = Faulty::new(Arc::new(MemoryBackend::new()));
    (LockClient::new(faulty.clone()), faulty)
}

/// C48: an endless wait never ends as a time-out, even if each grant arrives after its own deadline: the error
/// names the cause and the lock.
#[tokio::test(start_paused = true)]
async fn c48_an_endless_wait_for_grants_that_come_too_late_says_so() {
    let (client, faulty) = faulty_client();
    faulty.always(Operation::Acquire, Fault::Late(SECOND / 5));
    let request = LockRequest::new("stock:42").ttl(SECOND / 10).wait(Wait::Forever);
    let error = client.acquire(request).await.expect_err("no grant is in time");
    let LockError::Backend { source, .. } = &error else { panic!("{error:?}") };
    assert!(error.to_string().contains("stock:42"), "{error}");
    assert!(source.to_string().contains("choose a TTL"), "{source}");
}

/// C48: late grants do not hide the outage that follows.
#[tokio::test(start_paused = true)]
async fn c48_an_outage_after_late_grants_is_told_as_one() {
    let (client, faulty) = faulty_client();
    for _ in 0..3 {
        faulty.once(Operation::Acquire, Fault::Late(SECOND / 5));
    }
    faulty.always(Operation::Acquire, Fault::Refused);
    let request = LockRequest::new("a").ttl(SECOND / 10).wait(Wait::Forever);
    let error = client.acquire(request).await.expect_err("an outage");
    let LockError::Backend { source, .. } = &error else { panic!("{error:?}") };
    assert!(source.to_string().contains("a fault of the test"), "{source}");
}

/// C48: an outage of five request time-outs is tolerated, also if each try is refused at once.
#[tokio::test(start_paused = true)]
async fn c48_an_endless_wait_bears_five_request_timeouts_of_refusals() {
    let (client, faulty) = faulty_client();
    faulty.always(Operation::Acquire, Fault::Refused);
    let asked = Instant::now();
    let ended = client.acquire("a").await;
    assert!(matches!(ended, Err(LockError::Backend { .. })), "{ended:?}");
    let bound = ClientOptions::REQUEST_TIMEOUT * 5;
    assert!(asked.elapsed() >= bound, "given up after {:?}", asked.elapsed());
}

/// C17: the endless waits of one name bear an outage together, not one after the other.
#[tokio::test(start_paused = true)]
async fn c17_waiters_in_line_bear_an_outage_together() {
    for fault in [Fault::Refused, Fault::Silence] {
        let (client, faulty) = faulty_client();
        faulty.always(Operation::Acquire, fault);
        let asked = Instant::now();
        for ended in join_all((0..5).map(|_| client.acquire("a"))).await {
            assert!(matches!(ended, Err(LockError::Backend { .. })), "{ended:?}");
        }
        let bound = ClientOptions::REQUEST_TIMEOUT * 11 / 2 + SECOND / 10;
        assert!(asked.elapsed() <= bound, "{fault:?}: given up after {:?}", asked.elapsed());
    }
}

/// C48: a waiter that joins its line during an outage bears it for as long as any other.
#[tokio::test(start_paused = true)]
async fn c48_a_late_waiter_bears_an_outage_for_as_long() {
    let (client, faulty) = faulty_client();
    faulty.always(Operation::Acquire, Fault::Refused);
    let (bound, late) = (ClientOptions::REQUEST_TIMEOUT * 5, SECOND * 4);
    let waiter = async {
        sleep(late).await;
        (client.acquire("a").await, Instant::now())
    };
    let asked = Instant::now();
    let (first, (second, ended)) = tokio::join!(client.acquire("a"), waiter);
    assert!(first.is_err() && second.is_err());
    let borne = ended - asked - late;
    assert!(borne >= bound && borne < bound + SECOND * 2, "given up after {borne:?}");
}

/// C19: for an extended guard with an unresolved claim, withdrawals are tried for as long as the server keeps the
/// extension.
#[tokio::test(start_paused = true)]
async fn c19_an_extended_hold_is_taken_back_for_as_long_as_it_lasts() {
    let (client, faulty) = faulty_client();
    faulty.once(Operation::Acquire, Fault::RequestLost);
    let guard = client.acquire(LockRequest::new("a").ttl(SECOND)).await.expect("the second try");
    guard.extend(SECOND * 600).await.expect("held");
    faulty.always(Operation::Withdraw, Fault::RequestLost);
    drop(guard);
    // Longer than the first TTL, and than the shortest time for which withdrawals are tried.
    sleep(SECOND * 60).await;
    faulty.heal();
    let given_back = async {
        while client.admin().inspect("a").await.expect("an answer").holder().is_some() {
            sleep(SECOND / 10).await;
        }
    };
    let waited = tokio::time::timeout(SECOND * 30, given_back).await;
    assert!(waited.is_ok(), "the janitor gave up at the first TTL");
}

/// C19: simultaneous withdrawals of claims on one lock share requests.
#[tokio::test(start_paused = true)]
async fn c19_a_storm_of_callers_that_give_up_costs_few_requests() {
    const CALLERS: usize = 50;
    let (client, faulty) = faulty_client();
    faulty.always(Operation::Acquire, Fault::Silence);
    let tries = (0..CALLERS).map(|_| timeout(Duration::from_millis(10), client.try_acquire("a")));
    let given_up = join_all(tries).await;
    assert!(given_up.iter().all(Result::is_err), "nobody answers");
    client.shutdown().await;
    assert_eq!(faulty.calls(Operation::Acquire), CALLERS);
    let requests = faulty.calls(Operation::Withdraw);
    assert!((1..=3).contains(&requests), "{CALLERS} claims took {requests} requests");
}

/// C48: a server that does not answer within the wait does not count as busy, also for waiters in the local
/// queue.
#[tokio::test(start_paused = true)]
async fn c48_a_wait_without_an_answer_is_not_busy() {
    let (client, faulty) = faulty_client();
    let request = || LockRequest::new("a").wait(Wait::AtMost(SECOND / 2));
    let guard = client.acquire(request()).await.expect("a free lock");
    for error in join_all((0..3).map(|_| client.acquire(request()))).await {
        let error = error.expect_err("it is held");
        assert!(error.is_busy() && !error.is_transient(), "{error}");
    }
    guard.release().await.expect("held to the end");
    faulty.always(Operation::Acquire, Fault::Silence);
    for error in join_all((0..3).map(|_| client.acquire(request()))).await {
        let error = error.expect_err("no answer");
        assert!(matches!(error, LockError::Timeout { .. }), "{error:?}");
        assert!(error.is_transient() && !error.is_busy(), "{error}");
    }
}

/// C18: a deadline limits a wait like a span, and a past deadline allows one attempt.
#[tokio::test(start_paused = true)]
async fn c18_a_wait_ends_at_its_deadline() {
    let locks = LockClient::new(MemoryBackend::new());
    let held = locks.acquire("a").await.expect("a free lock");
    let (began, deadline) = (Instant::now(), Instant::now() + 3 * SECOND);
    let request = LockRequest::new("a").wait(deadline);
    sleep(SECOND).await;
    let error = locks.acquire(request.clone()).await.expect_err("it is held");
    assert!(matches!(error, LockError::Timeout { .. }), "{error:?}");
    assert!((3 * SECOND..4 * SECOND).contains(&began.elapsed()), "{:?}", began.elapsed());
    sleep(SECOND).await;
    let past = Instant::now();
    for request in [request.clone(), LockRequest::new("a").wait(Duration::ZERO)] {
        let error = locks.acquire(request).await.expect_err("it is held");
        assert!(matches!(error, LockError::NotAcquired { .. }), "{error:?}");
    }
    assert!(past.elapsed() < SECOND, "{:?}", past.elapsed());
    held.release().await.expect("held to the end");
    let _held = locks.acquire(request).await.expect("one attempt acquires a free lock");
}

/// C48: callers of a hot lock whose server answers are told that it is busy, however their wait ends: as the head with
/// little time left, with a look in flight, or in line.
#[tokio::test(start_paused = true)]
async fn c48_a_hot_lock_on_a_healthy_server_is_busy() {
    const MS: Duration = Duration::from_millis(1);
    let store = MemoryBackend::new();
    let faulty = Faulty::new(Arc::new(store.clone()));
    faulty.always(Operation::Acquire, Fault::Late(4 * MS));
    let (client, rival) = (LockClient::new(faulty), LockClient::new(store));
    let ends = std::cell::Cell::new(false);
    let caller = async |number: u32| {
        let mut gave_up = 0;
        for round in 0..20 {
            sleep(MS * (number * 7 % 13 + round % 5)).await;
            let request = LockRequest::new("a").wait(Wait::AtMost(150 * MS));
            match client.acquire(request).await {
                Ok(guard) => {
                    sleep(6 * MS).await;
                    guard.release().await.expect("held to the end");
                }
                Err(error) => {
                    assert!(error.is_busy() && !error.is_transient(), "{error}");
                    gave_up += 1;
                }
            }
        }
        gave_up
    };
    let rivals = async {
        while !ends.get() {
            let guard = rival.acquire("a").await.expect("its turn comes");
            sleep(9 * MS).await;
            guard.release().await.expect("held to the end");
        }
    };
    let callers = async {
        let gave_up: u32 = join_all((0..50).map(caller)).await.into_iter().sum();
        ends.set(true);
        gave_up
    };
    let (gave_up, ()) = tokio::join!(callers, rivals);
    assert!(gave_up > 100, "{gave_up} callers gave up");
}

/// C48: a caller whose first request is in flight as its wait ends has not waited for an answer for long.
#[tokio::test(start_paused = true)]
async fn c48_a_head_with_little_time_left_is_not_without_an_answer() {
    const MS: Duration = Duration::from_millis(1);
    let (client, faulty) = faulty_client();
    faulty.always(Operation::Acquire, Fault::Late(15 * MS));
    let _held = client.acquire(LockRequest::new("a").wait(SECOND)).await.expect("a free lock");
    sleep(MS).await;
    // The head waits for the rest of 20 ms for the holder of its own line, and then asks the server.
    let error = client.acquire(LockRequest::new("a").wait(30 * MS)).await.expect_err("it is held");
    assert_eq!(faulty.calls(Operation::Acquire), 2, "it asked");
    assert!(error.is_busy() && !error.is_transient(), "{error}");
    // Here the request has had no answer for more than half of the wait.
    faulty.always(Operation::Acquire, Fault::Silence);
    let error = client.acquire(LockRequest::new("a").wait(30 * MS)).await.expect_err("it is held");
    assert!(error.is_transient() && !error.is_busy(), "{error}");
}

/// C14: a caller that gives up in line learns what the head has learned.
#[tokio::test(start_paused = true)]
async fn c14_a_caller_behind_the_head_learns_of_the_holder() {
    let store = MemoryBackend::new();
    let (other, client) = (LockClient::new(store.clone()), LockClient::new(store));
    let request = |label| LockRequest::new("a").label(label).wait(Wait::AtMost(SECOND * 3 / 2));
    let _held = other.acquire(request("web-3")).await.expect("a free lock");
    let told = Arc::new(std::sync::Mutex::new(Vec::new()));
    let tells = told.clone();
    let behind = async {
        sleep(SECOND / 10).await;
        let request = request("behind").on_wait(move |seen| {
            let holder = seen.holder.as_ref().map(ToString::to_string);
            tells.lock().expect("no panic").push(holder);
        });
        client.acquire(request).await
    };
    for error in <[_; 2]>::from(tokio::join!(client.acquire(request("head")), behind)) {
        let LockError::Timeout { contention: Some(seen), .. } = error.expect_err("it is held")
        else {
            panic!("it is busy");
        };
        assert_eq!(seen.holder.expect("a holder").to_string(), "web-3");
    }
    let told = told.lock().expect("no panic").clone();
    assert!(told.len() >= 2, "at once, and at each look of the head: {told:?}");
    assert!(told.iter().all(|holder| holder.as_deref() == Some("web-3")), "{told:?}");
}

/// C5: a task whose grants all come too late stops nobody behind it.
#[tokio::test(start_paused = true)]
async fn c05_a_head_whose_grants_come_too_late_leaves_the_line() {
    let (client, faulty) = faulty_client();
    faulty.always(Operation::Acquire, Fault::Late(Duration::from_millis(30)));
    let short = LockRequest::new("a").ttl(Duration::from_millis(15)).wait(SECOND * 5);
    let behind = async {
        sleep(Duration::from_millis(5)).await;
        let began = Instant::now();
        let guard = client.acquire(LockRequest::new("a").wait(SECOND * 4)).await;
        guard.expect("a free lock").release().await.expect("held to the end");
        began.elapsed()
    };
    let (_late, took) = tokio::join!(client.acquire(short), behind);
    assert!(took < SECOND * 2, "it waited for the head: {took:?}");
}

/// C33, C34: the tasks of one client that count different numbers of permits take turns in the order of their line, and
/// leave one place on the server at most.
#[tokio::test(start_paused = true)]
async fn c33_tasks_of_one_client_with_other_numbers_take_turns() {
    let store = MemoryBackend::new();
    let (client, observer) = (LockClient::new(store.clone()), LockClient::new(store));
    let holder = observer.acquire(LockRequest::new("a").permits(1, 3)).await.expect("free");
    let (numbers, order) = ([2, 3, 3, 5, 2], Mutex::new(Vec::new()));
    let turns = numbers.iter().enumerate().map(async |(place, of)| {
        sleep(SECOND / 10 * u32::try_from(place).expect("a few")).await;
        let guard = client.acquire(LockRequest::new("a").permits(1, *of)).await.expect("its turn");
        let state = observer.admin().inspect("a").await.expect("an answer");
        let held = state.holders.iter().all(|holder| holder.kind.permits() == *of);
        assert!(held, "two numbers at once: {state:?}");
        order.lock().expect("no panic").push(*of);
        sleep(SECOND).await;
        guard.release().await.expect("held to the end");
    });
    let release = async {
        sleep(SECOND * 5).await;
        let waiters = observer.admin().inspect("a").await.expect("an answer").waiters;
        assert_eq!(waiters, Some(1), "a client has one place");
        holder.release().await.expect("held to the end");
    };
    tokio::join!(join_all(turns), release);
    assert_eq!(*order.lock().expect("no panic"), numbers);
}

/// C26: a line stays together while one request is within its time.
#[tokio::test(start_paused = true)]
async fn c26_a_line_stays_together_at_a_server_that_is_within_its_time() {
    let faulty = Faulty::new(Arc::new(MemoryBackend::new()));
    let options = ClientOptions::new().request_timeout(SECOND * 60);
    let locks = LockClient::with_options(faulty.clone(), options);
    faulty.always(Operation::Acquire, Fault::Silence);
    let wait = LockRequest::new("a").wait(SECOND * 25);
    drop(join_all((0..100).map(|_| locks.acquire(wait.clone()))).await);
    let asked = faulty.calls(Operation::Acquire);
    assert!(asked <= 2, "{asked} requests to a server that is silent");
}

/// C17: one attempt has half of the request time-out: a slow server that answers within it is asked once.
#[tokio::test(start_paused = true)]
async fn c17_a_longer_request_timeout_gives_a_slow_server_its_time() {
    let faulty = Faulty::new(Arc::new(MemoryBackend::new()));
    let options = ClientOptions::new().request_timeout(SECOND * 10);
    let locks = LockClient::with_options(faulty.clone(), options);
    let slow = Fault::Late(SECOND * 6 / 5);
    for operation in [Operation::Acquire, Operation::Inspect, Operation::Release] {
        faulty.always(operation, slow);
    }
    let guard = locks.acquire("a").await.expect("it answers in time");
    let began = Instant::now();
    guard.release().await.expect("held to the end");
    assert_eq!(faulty.calls(Operation::Release), 1, "after {:?}", began.elapsed());
    locks.admin().inspect("a").await.expect("it answers in 1.2 s of 10");
}
