//! P2: servers that restart one after the other under a long hold, and those who let them in.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold::admin::Health;
use leasehold::{LockClient, LockRequest, Wait};
use lock_testkit::{LeaseExt, eventually};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::set::Set;
use crate::support::{LIMIT, finding, fresh_name, patient, released, renewed};

/// Asks for a held lock again and again, as a candidate of an election does.
fn candidate(client: LockClient, name: &str, asked: Arc<AtomicU64>) -> JoinHandle<()> {
    let request = LockRequest::new(name).ttl(Duration::from_millis(500)).wait(Wait::Never);
    tokio::spawn(async move {
        loop {
            let tried = client.acquire(request.clone()).await;
            assert!(tried.is_err(), "two hold: {tried:?}");
            asked.fetch_add(1, Ordering::Relaxed);
            sleep(Duration::from_millis(20)).await;
        }
    })
}

/// Waits until all servers vote and have all holds, as an operator does before the next restart.
async fn until_all_stands(client: &LockClient) {
    eventually("all stands on all servers", LIMIT, async || {
        let findings = client.admin().doctor().await.unwrap_or_default();
        let good = |check| findings.iter().any(|it| it.check == check && it.health == Health::Good);
        good("quorum") && good("holds")
    })
    .await;
}

/// C12: a candidate raises the counters of free servers, and a server that was let in has a floor. Both are above the
/// ballot of the hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c12_a_hold_outlives_restarts_of_all_servers_one_after_the_other() {
    let (mut set, name) = (Set::of(3).await, fresh_name());
    let (client, operator) = (set.client().await, set.client().await);
    let guard = client.acquire(patient(&name).ttl(Duration::from_secs(2))).await.expect("free");
    let asked = Arc::new(AtomicU64::new(0));
    let candidate = candidate(set.client().await, &name, asked.clone());
    for number in 0..3 {
        set.servers[number].restart().await;
        let before = asked.load(Ordering::Relaxed);
        until_all_stands(&operator).await;
        assert!(guard.is_held(), "it is lost after restart {number}");
        eventually("it asks", LIMIT, async || asked.load(Ordering::Relaxed) > before + 2).await;
    }
    assert!(!candidate.is_finished(), "the candidate got in");
    candidate.abort();
    released(guard).await;
}

/// A holder may be the only client for long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_a_holder_that_only_renews_lets_a_server_in() {
    let (mut set, name) = (Set::of(3).await, fresh_name());
    let client = set.client().await;
    let guard = client.acquire(patient(&name).ttl(Duration::from_secs(2))).await.expect("free");
    set.servers[0].restart().await;
    set.until_it_votes(0).await;
    eventually("it is back", LIMIT, async || !set.held(&name).contains(&false)).await;
    renewed(&guard).await;
    released(guard).await;
}

/// Commands end at once, and admit no server in the background.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_the_doctor_lets_a_server_in() {
    let mut set = Set::of(3).await;
    set.servers[0].restart().await;
    let let_in = || set.servers[0].cli(&["EXISTS", "{}:run"]).integer() == 1;
    let doctor = set.client().await;
    assert!(!let_in(), "nobody has asked yet");
    doctor.admin().doctor().await.expect("an answer");
    assert!(let_in());
}

/// C31: the doctor names the holds that another failure may end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c31_the_doctor_says_which_holds_stand_on_fewer_than_all() {
    let (set, name) = (Set::of(3).await, fresh_name());
    let (client, backend) = (set.client().await, set.backend().await);
    let lease = backend.acquire_lease(&patient(&name)).await.expect("a free lock");
    let holds = async || finding(&client, "holds").await;
    eventually("all have it", LIMIT, async || holds().await.health == Health::Good).await;
    set.servers[1].cli(&["DEL", &name]);
    let fewer = holds().await;
    assert_eq!(fewer.health, Health::Risk, "{fewer}");
    let seen = format!("1 of the holds stand on fewer than 3 servers: {name}");
    assert_eq!(fewer.seen, seen, "{lease:?}");
}
