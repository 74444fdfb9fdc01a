//! Members that die, stand still, or cannot be reached any more.

use std::time::Duration;

use leasehold::{LockGuard, LockRequest, LostReason, Wait, connect};
use lock_testkit::{Mode, Proxy, eventually};
use tokio::time::{sleep, timeout};

use crate::servers::{SHORT_TTL, disturbed, three_members};
use crate::support::{
    LIMIT, MINUTE, REQUEST_TIMEOUT, SLACK, client, fresh_name, held, impatient, patient, queued,
    released, served, turn,
};

/// Waits until the ensemble confirms the hold again.
async fn extended(guard: &LockGuard) {
    eventually("it is extended", LIMIT, async || guard.extend(MINUTE).await.is_ok()).await;
    assert!(guard.is_held(), "it is to be kept");
}

/// C22, C27: each member dies in turn, the leader too, so that all sessions move. No hold and no place is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_members_that_die_one_by_one_cost_no_hold() {
    let mut ensemble = disturbed().await;
    let (holder, waiter) = (client(&ensemble.url()).await, client(&ensemble.url()).await);
    let name = fresh_name();
    let guard = held(&holder, &name).await;
    let waiting = queued(&waiter, &holder, patient(&name).wait(Wait::Forever), &name).await;
    let first = ensemble.leader().await;
    for member in (first..first + 3).map(|member| member % 3) {
        ensemble.member(member).kill();
        extended(&guard).await;
        ensemble.member(member).restart().await;
    }
    let token = guard.token();
    released(guard).await;
    let next = served(waiting).await;
    assert!(next.token() > token);
    released(next).await;
}

/// Clients leave a member that stands still for another, and such a leader is replaced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_that_stand_still_cost_no_hold() {
    let ensemble = disturbed().await;
    let client = client(&ensemble.url()).await;
    let guard = held(&client, &fresh_name()).await;
    for member in ensemble.members() {
        member.stop();
        extended(&guard).await;
        turn(&client, &fresh_name()).await;
        member.cont();
        // The loss of the next one would leave no majority.
        eventually("it serves", LIMIT, async || {
            member.ask("isro").await.is_ok_and(|said| said == "rw")
        })
        .await;
    }
    released(guard).await;
}

/// C22: a leader that goes on after longer than the TTL has seen none of the renewals meanwhile, and ends no hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_leader_that_goes_on_ends_no_hold() {
    let ensemble = disturbed().await;
    let (holder, other) = (client(&ensemble.url()).await, client(&ensemble.url()).await);
    let (name, ttl) = (fresh_name(), Duration::from_secs(8));
    let mut kept = None;
    for _ in 0..5 {
        let guard = holder.acquire(LockRequest::new(&name).ttl(ttl)).await.expect("a free lock");
        let leader = &ensemble.members()[ensemble.leader().await];
        leader.stop();
        sleep(ttl + Duration::from_secs(2)).await;
        let was_held = guard.is_held();
        leader.cont();
        eventually("it serves", LIMIT, async || {
            leader.ask("isro").await.is_ok_and(|said| said == "rw")
        })
        .await;
        // After an election that took longer than the TTL the hold is over by right.
        if was_held {
            kept = Some(guard);
            break;
        }
    }
    let guard = kept.expect("an election within the TTL");
    eventually("it is extended", LIMIT, async || guard.extend(ttl).await.is_ok()).await;
    assert!(other.try_acquire(&name).await.expect("an answer").is_none(), "two holders");
    released(guard).await;
}

/// C8, C17: without a majority every call fails in time, holders lose their holds, and the remaining member does
/// not count as a store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c17_two_of_three_that_are_down_grant_and_extend_nothing() {
    let mut ensemble = disturbed().await;
    let client = impatient(&ensemble.url()).await;
    let name = fresh_name();
    let guard = client.acquire(LockRequest::new(&name).ttl(SHORT_TTL)).await.expect("free");
    for member in [0, 1] {
        ensemble.member(member).kill();
    }
    let reason = timeout(LIMIT, guard.lost()).await.expect("the loss is told");
    assert_eq!(reason, LostReason::Expired);
    let refused = timeout(REQUEST_TIMEOUT + SLACK, client.try_acquire(&name)).await;
    let refused = refused.expect("an answer in time").expect_err("nobody can grant it");
    assert!(!refused.is_busy(), "{refused}");
    let left = &ensemble.members()[2];
    eventually("it only reads", LIMIT, async || {
        left.ask("isro").await.is_ok_and(|said| said == "ro")
    })
    .await;
    assert!(connect(&left.url()).await.is_err(), "a member that only reads is refused");
    let lost = guard.token();
    for member in [0, 1] {
        ensemble.member(member).restart().await;
    }
    assert!(turn(&client, &name).await > lost);
}

/// Half-open connections are given up, and the sessions go on over others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_open_connections_cost_no_hold() {
    let ensemble = three_members().await;
    let mut proxies = Vec::new();
    for member in ensemble.members() {
        proxies.push(Proxy::start(member.addr()).await);
    }
    let addresses: Vec<_> = proxies.iter().map(|proxy| proxy.addr().to_string()).collect();
    let client = client(&format!("zookeeper://{}/", addresses.join(","))).await;
    let guard = held(&client, &fresh_name()).await;
    proxies.iter().for_each(|proxy| proxy.set_existing(Mode::BlackHole));
    extended(&guard).await;
    proxies.iter().for_each(Proxy::cut);
    extended(&guard).await;
    released(guard).await;
}
