//! C22, C26: a hold passes between tasks of a client with reserved tokens.

use crate::Expect;
use lock_core::backend::DistributedLockExt;
use std::sync::Mutex;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, sleep, timeout};

use super::harness::Harness;
use super::steps::{claim, client, eventually, fresh_name, granted, patient, renewal, until_free};
use lock_core::backend::{Claim, Extension, Reservation, Reserved, TokenRange};
use lock_core::{DistributedLock, Fence, FencingToken, Lease, LostReason, MemoryFence};

/// Asks to keep the hold that `claim` was granted under `token`.
fn reservation(claim: &Claim, token: FencingToken, yields: bool) -> Reservation {
    let (owner, ttl) = (claim.owner.expose(), claim.ttl.as_millis());
    let text = format!("lease1:{owner}:{token}:{ttl}:{}", claim.name.as_str());
    Reservation::new(&Lease::import(&text).expect("a lease"), 3, yields)
}

/// Returns a hold, and tokens that are reserved for it. A backend may release instead while its clock is not ahead of
/// the tokens; then it is asked again.
async fn reserved(
    harness: &dyn Harness,
    backend: &dyn DistributedLock,
    claim: &Claim,
) -> (FencingToken, TokenRange) {
    let end = Instant::now() + harness.limit();
    loop {
        let token = granted(backend, claim).await.token;
        sleep(Duration::from_millis(1)).await;
        let hold = reservation(claim, token, false);
        match backend.expect_token_ranges().release_or_reserve(&hold).await.expect("an answer") {
            Reserved::Tokens(tokens) => return (token, tokens),
            Reserved::Ended(_) => {
                assert!(Instant::now() < end, "a backend that says so is to reserve tokens");
            }
        }
    }
}

/// C22: reserved tokens are greater than all before, and less than all after; the hold does not change.
pub async fn c22_reserved_tokens_are_nobody_elses(harness: &dyn Harness) {
    let (backend, name) = (harness.connect().await, fresh_name());
    if backend.token_ranges().is_none() {
        return;
    }
    let claim = claim(&name, harness.long_ttl());
    let (token, tokens) = reserved(harness, &backend, &claim).await;
    let first = tokens.first();
    assert!(first > token, "reserved tokens are to be greater than all before: {first}, {token}");
    assert!(
        (1..=3).contains(&tokens.count()),
        "as many as were asked for, at the most: {tokens:?}"
    );
    let holder = backend.expect_admin().inspect(&name).await.expect("an answer").holder().cloned();
    let known = holder.and_then(|holder| holder.token);
    assert_eq!(known, Some(token), "a hold that is kept is to stay as it was");
    let extended = backend.extend_one(&renewal(&claim, token)).await.expect("an answer");
    assert!(matches!(extended, Extension::Extended(_)), "a hold that is kept can be extended");
    backend.release(&name, claim.owner).await.expect("an answer");
    let next = super::steps::claim(&name, harness.long_ttl());
    let next_token = granted(&backend, &next).await.token;
    let last = first.get() + u64::from(tokens.count()) - 1;
    let later = next_token.get() > last;
    assert!(later, "a grant is to have a greater token than those reserved: {next_token}, {last}");
    backend.release(&name, next.owner).await.expect("an answer");
}

/// C46: an evicted hold that passed within its client is refused under each of its tokens.
pub async fn c46_an_eviction_fences_reserved_tokens(harness: &dyn Harness) {
    let (backend, operator, name) = (harness.connect().await, client(harness).await, fresh_name());
    if backend.token_ranges().is_none() {
        return;
    }
    let claim = claim(&name, harness.long_ttl());
    let (_, tokens) = reserved(harness, &backend, &claim).await;
    let fence = MemoryFence::new();
    operator.admin().evict_and_fence(&name, &fence).await.expect("an answer");
    let late = fence.advance(tokens.last()).await;
    assert!(late.is_err_and(|error| error.is_stale()), "the last reserved token is to be refused");
    let next = operator.acquire(patient(&name, harness.long_ttl())).await.expect("it is free");
    fence.advance(next.token()).await.expect("the next holder is let in");
    next.release().await.expect("held to the end");
}

/// C26, C27: a hold that yields is kept only if nobody waits on the server.
pub async fn c26_a_reservation_yields_to_those_that_wait(harness: &dyn Harness) {
    let (backend, waiter, name) = (harness.connect().await, client(harness).await, fresh_name());
    if backend.token_ranges().is_none() {
        return;
    }
    let held = claim(&name, harness.long_ttl());
    let token = granted(&backend, &held).await.token;
    let end = async {
        eventually(harness, "it queues", async || {
            let state = backend.expect_admin().inspect(&name).await;
            state.is_ok_and(|state| state.waiters == Some(1))
        })
        .await;
        let hold = reservation(&held, token, true);
        let answer =
            backend.expect_token_ranges().release_or_reserve(&hold).await.expect("an answer");
        let yielded = matches!(answer, Reserved::Ended(_));
        assert!(yielded, "a hold that yields is to go to those that wait on the server");
    };
    let (next, ()) = tokio::join!(waiter.acquire(patient(&name, harness.long_ttl())), end);
    next.expect("its turn comes").release().await.expect("held to the end");
}

/// S2, S3, L5: tasks of several clients that pass a lock among themselves exclude each other, have growing tokens,
/// and are all served.
pub async fn c22_tokens_grow_from_task_to_task_and_from_client_to_client(harness: &dyn Harness) {
    const CLIENTS: usize = 3;
    const TASKS: usize = 6;
    const ROUNDS: usize = 5;
    let (name, log) = (fresh_name(), Mutex::new(Vec::new()));
    let clients = (0..CLIENTS).map(async |_| {
        let client = client(harness).await;
        let tasks = (0..TASKS).map(async |_| {
            for _ in 0..ROUNDS {
                let request = patient(&name, harness.long_ttl());
                let guard = client.acquire(request).await.expect("its turn comes");
                let (token, entered) = (guard.token(), Instant::now());
                tokio::task::yield_now().await;
                log.lock().expect("no panic").push((token, entered, Instant::now()));
                guard.release().await.expect("held to the end");
            }
        });
        join_all(tasks).await;
    });
    join_all(clients).await;
    let mut log = log.into_inner().expect("no panic");
    log.sort_unstable_by_key(|(token, ..)| *token);
    assert_eq!(log.len(), CLIENTS * TASKS * ROUNDS, "every acquisition is to be granted once");
    for pair in log.windows(2) {
        let ((first, _, left), (second, entered, _)) = (pair[0], pair[1]);
        assert!(first < second, "each hold is to have a token of its own: {first} came twice");
        assert!(left <= entered, "a lock is to have one holder: {second} began under {first}");
    }
    until_free(harness, &client(harness).await, &name).await;
}

/// C8, C10: a loss ends only the hold of the task that has it; the next grant is the server's.
pub async fn c10_a_loss_ends_the_current_holder_alone(harness: &dyn Harness) {
    let (client, name) = (client(harness).await, fresh_name());
    let request = || patient(&name, harness.ttl() * 3);
    let first = client.acquire(request()).await.expect("a free lock");
    let signal = first.lost_signal();
    let (second, ()) = tokio::join!(client.acquire(request()), async {
        tokio::task::yield_now().await;
        first.release().await.expect("held to the end");
    });
    let second = second.expect("its turn comes");
    harness.evict(&name).await;
    let told = timeout(harness.limit(), second.lost()).await.expect("the loss is told");
    assert_eq!(told, LostReason::Evicted);
    assert_eq!(signal.reason(), Some(LostReason::Released), "the first had ended its hold before");
    let third = client.acquire(request()).await.expect("it is free");
    assert!(third.token() > second.token(), "each grant is to have a greater token");
    drop(second);
    assert!(third.is_held(), "the end of a lost guard is to end no later hold");
    third.release().await.expect("held to the end");
}
