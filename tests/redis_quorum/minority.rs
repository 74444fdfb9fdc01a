//! Servers that are dead, stopped or late: a minority of them costs nothing, and a majority is never made of
//! those that can be reached.

use std::time::Duration;

use futures_util::future::join_all;
use leasehold::redis::QuorumBackend;
use leasehold::{DistributedLock, Fence, FenceError, LockError, LockRequest, Wait, connect};
use lock_testkit::{RedisServer, Reply, eventually};

use crate::set::Set;
use crate::support::{LIMIT, fresh_name, held, patient, queued, released, served, turn};

/// C17: one server of three that is dead or stopped, or two of five.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_a_minority_that_fails_costs_no_lock() {
    for (count, stops) in [(3, false), (3, true), (5, false)] {
        let mut set = Set::of(count).await;
        let (holder, waiter) = (set.client().await, set.client().await);
        let mut last = turn(&holder, "before").await;
        for server in set.servers.iter_mut().take(count / 2) {
            match stops {
                true => server.stop(),
                false => server.kill(),
            }
        }
        let name = fresh_name();
        for _ in 0..3 {
            let guard = held(&holder, &name).await;
            assert!(guard.token() > last, "tokens grow");
            let waiting = queued(&waiter, &holder, patient(&name), &name).await;
            released(guard).await;
            let next = served(waiting).await;
            last = next.token();
            released(next).await;
        }
        // Who comes now finds a majority, too.
        assert!(turn(&set.client().await, &name).await > last);
    }
}

/// P2: one server of three that can be reached is no majority, and keeps nothing of the attempt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_no_lock_is_granted_by_a_majority_of_those_that_answer() {
    let mut set = Set::of(3).await;
    let (client, name) = (set.client().await, fresh_name());
    turn(&client, &name).await;
    let backend = set.backend().await;
    set.servers[1].kill();
    set.servers[2].kill();
    let claim = LockRequest::new(&name).claim().expect("a claim");
    backend.try_acquire(&claim, None).await.expect_err("one of three");
    assert_eq!(set.servers[0].cli(&["EXISTS", &name]).integer(), 0, "it is given back");
    let refused = client.acquire(LockRequest::new(&name).wait(Wait::Never)).await;
    let Err(LockError::Backend { source, .. }) = refused else { panic!("{refused:?}") };
    assert!(source.is_transient(), "{source}");
    assert!(source.to_string().contains("fewer than 2 of 3"), "{source}");
}

/// C19: what a stopped server was asked while it was stopped, it does not keep.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c19_a_server_that_was_stopped_keeps_no_hold_that_is_over() {
    let set = Set::of(3).await;
    let (client, name) = (set.client().await, fresh_name());
    turn(&client, &name).await;
    set.servers[2].stop();
    let guard = held(&client, &name).await;
    // It waits for the stopped server, whose connection is given up then: the release goes over another.
    client.inspect(&*name).await.expect("an answer");
    released(guard).await;
    // As long again: by then the release is not waiting to be sent any more, but owed.
    client.inspect(&*name).await.expect("an answer");
    set.servers[2].cont();
    eventually("nothing is held", LIMIT, async || set.held(&name) == [false; 3]).await;
}

/// C12: a server that lacks a hold is asked for its vote again, while a majority has it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c12_a_hold_comes_back_to_a_server_that_lacks_it() {
    let set = Set::of(3).await;
    let (client, name) = (set.client().await, fresh_name());
    let request = patient(&name).ttl(Duration::from_secs(1));
    let guard = client.acquire(request).await.expect("a free lock");
    eventually("all have it", LIMIT, async || set.held(&name) == [true; 3]).await;
    set.servers[1].cli(&["DEL", &name, &format!("{{{name}}}:fence")]);
    eventually("it is back", LIMIT, async || set.held(&name) == [true; 3]).await;
    released(guard).await;
}

/// C10: a hold that a majority has lost is lost, and is not made anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c10_a_hold_that_no_majority_has_is_lost() {
    let set = Set::of(3).await;
    let (client, name) = (set.client().await, fresh_name());
    let guard = client.acquire(patient(&name).ttl(Duration::from_secs(1))).await.expect("free");
    eventually("all have it", LIMIT, async || set.held(&name) == [true; 3]).await;
    set.servers[0].cli(&["DEL", &name]);
    set.servers[1].cli(&["DEL", &name]);
    guard.lost().await;
    assert_eq!(set.held(&name)[..2], [false, false]);
}

/// S2, S3: candidates that come at once share no lock, and tokens grow.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_clients_that_contend_hold_one_after_the_other() {
    let set = Set::of(3).await;
    let (name, held) = (fresh_name(), tokio::sync::Mutex::new(None));
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(set.client().await);
    }
    join_all(clients.iter().map(async |client| {
        for _ in 0..15 {
            let guard = client.acquire(patient(&name)).await.expect("its turn comes");
            let mut last = held.try_lock().expect("nobody else holds");
            assert!(*last < Some(guard.token()), "tokens grow");
            *last = Some(guard.token());
            tokio::task::yield_now().await;
            drop(last);
            released(guard).await;
        }
    }))
    .await;
}

/// C24: a majority knows each token that passed, whichever server is away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c24_a_fence_on_a_majority_refuses_what_is_stale() {
    let set = Set::of(3).await;
    let backend = QuorumBackend::connect(&set.url()).await.expect("a connection");
    let (client, name) = (set.client().await, fresh_name());
    let (first, second) = (turn(&client, &name).await, turn(&client, &name).await);
    let fence = backend.fence(&name);
    assert_eq!(fence.seen().await.expect("an answer"), None);
    fence.advance(first).await.expect("the first");
    fence.advance(second).await.expect("a greater one");
    // One that was away when the greater token passed, and one that is away now.
    set.servers[0].cli(&["DEL", &format!("{{{name}}}:mark")]);
    set.servers[1].stop();
    let refused = fence.advance(first).await;
    assert!(
        matches!(refused, Err(FenceError::Stale { seen, .. }) if seen == second),
        "{refused:?}"
    );
    assert_eq!(fence.seen().await.expect("an answer"), Some(second));
    set.servers[1].cont();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_server_by_two_names_is_refused() {
    let servers = [RedisServer::start().await, RedisServer::start().await];
    let [one, two] = [&servers[0], &servers[1]].map(RedisServer::port);
    let url = format!("redis-quorum://127.0.0.1:{one},127.0.0.1:{two},localhost:{two}");
    let error = connect(&url).await.expect_err("one server has two votes").to_string();
    assert!(error.contains("are the same server"), "{error}");
}

/// C29: foreign clients of the recipe take the same key on a majority.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c29_foreign_clients_of_the_recipe_are_kept_out_and_keep_out() {
    let set = Set::of(3).await;
    let (backend, client, name) = (set.backend().await, set.client().await, fresh_name());
    for server in &set.servers[..2] {
        server.cli(&["SET", &name, "theirs", "NX", "PX", "60000"]);
    }
    assert!(client.try_acquire(&*name).await.expect("an answer").is_none());
    assert_eq!(backend.capabilities().backend, "redis-quorum");
    for server in &set.servers[..2] {
        server.cli(&["DEL", &name]);
    }
    let guard = held(&client, &name).await;
    let taken = set
        .servers
        .iter()
        .filter(|server| server.cli(&["SET", &name, "theirs", "NX", "PX", "60000"]) != Reply::Nil);
    assert!(taken.count() < 2, "a foreign client has a majority");
    drop(guard);
}
