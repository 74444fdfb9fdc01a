//! P2: a server that restarted without its data does not vote until all holds that it may have granted have
//! ended.

use std::time::Duration;

use leasehold::{DistributedLock, FencingToken, LockClient, LockRequest, Wait};
use lock_testkit::{RedisServer, eventually};
use tokio::runtime::Builder;
use tokio::time::Instant;

use crate::set::Set;
use crate::support::{LIMIT, client_of, fresh_name, patient};

/// Acquires with a short TTL: a server that restarts stays out for the longest TTL in use.
async fn brief(client: &LockClient, name: &str) -> FencingToken {
    let request = patient(name).ttl(Duration::from_millis(500));
    let guard = client.acquire(request).await.expect("its turn comes");
    let token = guard.token();
    drop(guard.release().await);
    token
}

/// A holder has a majority: the other servers lack its key. One server of the majority restarts empty. If it
/// voted, a second holder would also have a majority.
async fn nobody_gets_in_beside_a_holder(mut set: Set) {
    let (client, name, ttl) = (set.client().await, fresh_name(), Duration::from_secs(3));
    let asked = Instant::now();
    let lease = client.acquire(patient(&name).ttl(ttl)).await.expect("free").detach();
    let lease = lease.expect("held");
    eventually("all have it", LIMIT, async || !set.held(&name).contains(&false)).await;
    let minority = set.minority();
    for server in &set.servers[..minority] {
        server.cli(&["DEL", &name]);
    }
    let restarted = &mut set.servers[minority];
    restarted.kill();
    restarted.restart().await;
    let other = set.client().await;
    while asked.elapsed() < ttl - Duration::from_millis(500) {
        let request = LockRequest::new(&name).ttl(Duration::from_millis(500)).wait(Wait::Never);
        let tried = other.acquire(request).await;
        // On a busy machine an attempt may outlast the lease.
        assert!(tried.is_err() || asked.elapsed() >= ttl, "two hold: {lease:?} and {tried:?}");
    }
    assert!(brief(&other, &name).await > lease.token());
    // After that, the server votes again.
    set.servers[..minority].iter_mut().for_each(RedisServer::kill);
    brief(&other, &name).await;
}

on_three_and_five!(p2_a_server_that_lost_its_data_lets_nobody_in_beside_a_holder: nobody_gets_in_beside_a_holder);

/// C22: a server that lost its counters grants no lower token.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_server_that_lost_its_counters_grants_greater_tokens_only() {
    let mut set = Set::of(3).await;
    let (client, name) = (set.client().await, fresh_name());
    let ahead = brief(&client, &name).await.get() + 3_600_000_000;
    for server in &set.servers {
        server.cli(&["SET", &format!("{{{name}}}:fence"), &ahead.to_string()]);
    }
    let request = || LockRequest::new(&name).ttl(Duration::from_millis(200));
    let lease = client.acquire(request()).await.expect("free").detach().expect("held");
    assert!(lease.token().get() > ahead, "a client whose clock is behind goes on from the counter");
    // A week after the time of its token, so that the clock is ahead of a counter that is gone.
    let left = set.servers[0].cli(&["PTTL", &format!("{{{name}}}:fence")]).integer();
    assert!(left > 7 * 86_400_000 + 3_000_000, "the counter lasts for {left} ms");
    set.servers[1].kill();
    set.servers[1].restart().await;
    eventually("it votes again", LIMIT, async || {
        brief(&client, &fresh_name()).await;
        set.servers[1].cli(&["EXISTS", "{}:run", "{}:out"]).integer() == 1
    })
    .await;
    // The rest of the counter is on a server that does not answer.
    set.servers[2].cli(&["DEL", &format!("{{{name}}}:fence")]);
    set.servers[0].kill();
    assert!(brief(&client, &name).await > lease.token());
}

/// A set that lost all data cannot be told from a new one. Tokens grow by the clock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_set_that_lost_all_data_begins_anew() {
    let mut set = Set::of(3).await;
    let client = set.client().await;
    let before = brief(&client, "a").await;
    for server in &mut set.servers {
        server.restart().await;
    }
    assert!(brief(&client, "a").await > before);
}

/// The runtime that met a restarted server ends while it waits for the moment to admit the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_a_server_is_admitted_although_the_runtime_that_met_it_has_ended() {
    let mut set = Set::of(3).await;
    let backend = set.backend().await;
    set.servers[0].restart().await;
    // With one server silent, an attempt needs the answers of all others. Nobody is admitted meanwhile.
    set.servers[1].stop();
    let first = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let meets = {
        let backend = backend.clone();
        move || {
            // The first attempts may only find that the connection is closed.
            for _ in 0..3 {
                let request = LockRequest::new(fresh_name()).ttl(Duration::from_millis(500));
                let claim = request.claim().expect("a claim");
                let attempt = first.block_on(backend.acquire(&claim, None));
                attempt.expect_err("one server of three votes");
            }
        }
    };
    tokio::task::spawn_blocking(meets).await.expect("no panic");
    set.servers[1].cont();
    let client = client_of(backend);
    eventually("it votes again", LIMIT, async || {
        brief(&client, &fresh_name()).await;
        set.servers[0].cli(&["EXISTS", "{}:run", "{}:out"]).integer() == 1
    })
    .await;
}
