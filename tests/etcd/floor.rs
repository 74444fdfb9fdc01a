//! C22: tokens are a floor plus a revision, so that they are greater than those of earlier clusters and other
//! stores.

use std::collections::HashSet;
use std::fs;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::join_all;
use leasehold::admin::Health;
use leasehold::core::backend::Attempt;
use leasehold::{DistributedLock, Fence, LockClient, LockError};
use lock_testkit::EtcdServer;
use tokio::time::sleep;

use crate::servers::gauge;
use crate::sessions::backend;
use crate::support::{
    a_turn_costs_the_same_whoever_had_the_one_before, client, finding, held, patient, queued,
    released, served, shown,
};

const FLOOR: &str = "leasehold/floor";

fn floor(server: &EtcdServer) -> String {
    server.ctl(&["get", "--print-value-only", FLOOR]).trim().to_owned()
}

async fn token(client: &LockClient) -> u64 {
    let guard = held(client, "a").await;
    let token = guard.token().get();
    released(guard).await;
    token
}

/// A new cluster begins at revision 1 again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_cluster_that_is_built_anew_has_greater_tokens() {
    let mut server = EtcdServer::start().await;
    let before = token(&client(&server.url()).await).await;
    server.kill();
    fs::remove_dir_all(server.folder().join("data")).expect("its data");
    server.restart().await;
    let after = token(&client(&server.url()).await).await;
    assert!(after > before, "{after} after {before}");
}

/// A restored backup has the floor of its original cluster.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_the_floor_of_another_cluster_is_raised() {
    let server = EtcdServer::start().await;
    let holder = client(&server.url()).await;
    // While somebody holds, a floor that is behind the clock stays.
    let guard = held(&holder, "held").await;
    let before = token(&holder).await;
    let written = floor(&server);
    let (value, cluster) = written.rsplit_once(' ').expect("a floor and a cluster");
    let of_another = format!("{value} {:x}", u64::from_str_radix(cluster, 16).expect("an id") ^ 1);
    server.ctl(&["put", FLOOR, &of_another]);
    let after = token(&client(&server.url()).await).await;
    assert!(after > before, "{after} after {before}");
    assert!(floor(&server) > written && floor(&server).ends_with(cluster), "{}", floor(&server));
    released(guard).await;
}

/// If the floor is raised while a client is connected, the client loses no hold, and its next grant is above the
/// floor.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_no_grant_is_made_under_a_floor_that_has_changed() {
    let server = EtcdServer::start().await;
    let (holder, other) = (client(&server.url()).await, client(&server.url()).await);
    let request = patient("held").ttl(Duration::from_secs(6));
    let guard = holder.acquire(request).await.expect("a free lock");
    let before = token(&other).await;
    server.ctl(&["del", FLOOR]);
    let anew = token(&holder).await;
    let raised = floor(&server).split(' ').next().and_then(|floor| floor.parse::<u64>().ok());
    assert!(raised.is_some_and(|raised| before < raised && raised < anew), "{raised:?} {anew}");
    assert!(token(&other).await > anew);
    let lost = tokio::time::timeout(Duration::from_secs(9), guard.lost()).await;
    assert!(lost.is_err(), "its hold was made under the earlier floor");
    released(guard).await;
}

/// C16, S8: a claim that waits while the floor is removed has the token of the floor of its time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_waiter_gets_a_hold_when_the_floor_is_removed() {
    let server = EtcdServer::start().await;
    let (holder, waiter) = (client(&server.url()).await, client(&server.url()).await);
    for (name, request) in [("a", patient("a")), ("b", patient("b").permits(1, 1))] {
        let guard = holder.acquire(request.clone()).await.expect("a free lock");
        let waiting = queued(&waiter, &holder, request, name).await;
        server.ctl(&["del", FLOOR]);
        let before = guard.token();
        released(guard).await;
        let next = served(waiting).await;
        assert!(next.token() > before);
        let lost = tokio::time::timeout(Duration::from_secs(2), next.lost()).await;
        assert!(lost.is_err(), "{name}: {lost:?}");
        released(next).await;
    }
}

/// A service that returns from another store finds the floor unchanged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_floor_behind_the_clock_is_raised_while_nobody_has_a_claim() {
    let server = EtcdServer::start().await;
    let before = token(&client(&server.url()).await).await;
    let written = floor(&server);
    let (_, rest) = written.split_once(' ').expect("a floor and a revision");
    let an_hour_ago = format!("{} {rest}", before - 3_600_000_000);
    server.ctl(&["put", FLOOR, &an_hour_ago]);
    let guard = held(&client(&server.url()).await, "held").await;
    assert!(guard.token().get() > before, "{} after {before}", guard.token());
    server.ctl(&["put", FLOOR, &an_hour_ago]);
    let beside = token(&client(&server.url()).await).await;
    assert!(beside < before, "a floor that others hold under stays: {beside}");
    assert_eq!(floor(&server), an_hour_ago);
    released(guard).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_turn_costs_the_same_whoever_had_the_one_before() {
    let server = EtcdServer::start().await;
    let count = async || gauge(&server, "etcd_server_proposals_committed_total").await;
    a_turn_costs_the_same_whoever_had_the_one_before(&server.url(), count).await;
}

/// A service with many processes starts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_clients_that_come_at_once_agree_on_a_floor() {
    let server = EtcdServer::start().await;
    for _ in 0..5 {
        server.ctl(&["del", FLOOR]);
        join_all((0..40).map(async |_| client(&server.url()).await)).await;
    }
}

/// The first request of another client raises the floor that this one knows. The request of this one asks again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_request_under_a_floor_that_was_raised_asks_again() {
    let server = EtcdServer::start().await;
    let (lock, other) = (backend(&server).await, backend(&server).await);
    let mut last = None;
    for lock in [&lock, &other, &lock] {
        // The floor is then so far behind the clock that the next client raises it.
        sleep(Duration::from_millis(20)).await;
        let claim = patient("a").claim().expect("a good claim");
        let granted = lock.acquire(&claim, None).await;
        let Ok(Attempt::Granted(grant)) = granted else { panic!("{granted:?}") };
        assert!(last < Some(grant.token), "{last:?} {grant:?}");
        last = Some(grant.token);
        lock.release(&claim.name, claim.owner).await.expect("an answer");
    }
}

/// A clock that was ahead has written the floor, which an operator then deletes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_client_writes_no_floor_below_the_one_that_it_knows() {
    let server = EtcdServer::start().await;
    let client = client(&server.url()).await;
    let before = token(&client).await;
    let written = floor(&server);
    let (_, rest) = written.split_once(' ').expect("a floor and a revision");
    server.ctl(&["put", FLOOR, &format!("{} {rest}", before + 3_600_000_000)]);
    let ahead = token(&client).await;
    assert!(ahead > before + 3_600_000_000, "{ahead} after {before}");
    server.ctl(&["del", FLOOR]);
    assert!(token(&client).await > ahead);
}

/// C31: a data folder that was copied back has the id of its cluster, so that no client can notice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c31_the_doctor_says_when_the_floor_is_to_be_raised() {
    let server = EtcdServer::start().await;
    let health = async || finding(&client(&server.url()).await, "tokens").await.health;
    let lock = leasehold::etcd::EtcdBackend::connect(&server.url()).await.expect("a connection");
    let guard = held(&client(&server.url()).await, "a").await;
    lock.fence("stock").advance(guard.token()).await.expect("the newest");
    assert_eq!(health().await, Health::Good);
    let later = guard.token().get() + 1_000_000;
    server.ctl(&["put", "leasehold/fences/stock", &format!("{later:016}")]);
    assert_eq!(health().await, Health::Risk);
    tokio::time::sleep(Duration::from_secs(1)).await;
    server.ctl(&["del", FLOOR]);
    assert_eq!(health().await, Health::Good);
}

/// C44: an observer that looks while a hold ends shows no token that nobody was granted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c44_each_token_that_is_shown_was_granted() {
    let server = EtcdServer::start().await;
    let (holder, observer) = (client(&server.url()).await, client(&server.url()).await);
    let mut holds = pin!(async {
        let mut granted = HashSet::new();
        for _ in 0..20 {
            let guard = held(&holder, "a").await;
            granted.insert(guard.token());
            // The floor is then so far behind the clock that the next client raises it.
            sleep(Duration::from_millis(20)).await;
            released(guard).await;
        }
        granted
    });
    let (admin, mut seen) = (observer.admin(), HashSet::new());
    let granted = loop {
        tokio::select! {
            granted = &mut holds => break granted,
            state = admin.inspect("a") => {
                seen.extend(state.expect("an answer").holder().and_then(|holder| holder.token));
            }
        }
    };
    assert!(!seen.is_empty() && seen.is_subset(&granted), "{seen:?} of {granted:?}");
}

/// S3: a floor of a later format, or a damaged one, is not guessed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_a_floor_that_is_not_understood_grants_nothing() {
    let server = EtcdServer::start().await;
    server.ctl(&["put", FLOOR, "later:7"]);
    let refused = client(&server.url()).await.acquire(patient("a")).await;
    let Err(error @ LockError::Backend { .. }) = refused else { panic!("{refused:?}") };
    assert!(shown(&error).contains(FLOOR), "{error:?}");
    assert_eq!(floor(&server), "later:7");
}

/// C22: a stranger may have written the floor on a lease of its own, after which tokens would fall.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_floor_that_ends_with_a_lease_grants_nothing() {
    let server = EtcdServer::start().await;
    token(&client(&server.url()).await).await;
    let granted = server.ctl(&["lease", "grant", "600"]);
    let lease = granted.split(' ').nth(1).expect("its id");
    server.ctl(&["put", FLOOR, &floor(&server), &format!("--lease={lease}")]);
    let refused = client(&server.url()).await.try_acquire("a").await;
    let Err(error @ LockError::Backend { .. }) = refused else { panic!("{refused:?}") };
    assert!(shown(&error).contains(FLOOR), "{error:?}");
}
