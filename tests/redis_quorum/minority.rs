//! Servers that are dead, stopped or late: a minority of them does not matter, and the reachable servers alone
//! never form a majority.

use std::time::Duration;

use leasehold::redis::QuorumBackend;
use leasehold::{DistributedLock, Fence, FenceError, LockError, LockRequest, Wait, connect};
use lock_testkit::{Mode, Proxy, RedisServer, Reply, eventually};

use crate::set::Set;
use crate::support::{
    LIMIT, MINUTE, client, fresh_name, held, patient, queued, released, served, shown, turn,
};

/// C17: one server of three that is dead or stopped, or two of five.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_a_minority_that_fails_costs_no_lock() {
    for (count, stops) in [(3, false), (3, true), (5, false), (5, true)] {
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
        // A new client finds a majority, too.
        assert!(turn(&set.client().await, &name).await > last);
    }
}

/// P2: one reachable server of three is no majority, and keeps nothing of the attempt.
async fn those_that_answer_are_no_majority(mut set: Set) {
    let (client, name) = (set.client().await, fresh_name());
    turn(&client, &name).await;
    let backend = set.backend().await;
    let (minority, all) = (set.minority(), set.servers.len());
    set.servers[minority..].iter_mut().for_each(RedisServer::kill);
    let claim = LockRequest::new(&name).claim().expect("a claim");
    backend.acquire(&claim, None).await.expect_err("no majority answers");
    for server in &set.servers[..minority] {
        assert_eq!(server.cli(&["EXISTS", &name]).integer(), 0, "it is given back");
    }
    let refused = client.acquire(LockRequest::new(&name).wait(Wait::Never)).await;
    let Err(LockError::Backend { source, .. }) = refused else { panic!("{refused:?}") };
    assert!(source.is_transient(), "{source}");
    let expected = format!("fewer than {} of {all}", minority + 1);
    assert!(source.to_string().contains(&expected), "{source}");
}

on_three_and_five!(p2_no_lock_is_granted_by_a_majority_of_those_that_answer: those_that_answer_are_no_majority);

/// C31: a majority knows each hold, so a listing is complete while a minority is dead.
async fn a_minority_that_is_dead_hides_no_lock(mut set: Set) {
    let (client, name) = (set.client().await, fresh_name());
    let guard = held(&client, &name).await;
    let minority = set.minority();
    set.servers[..minority].iter_mut().for_each(RedisServer::kill);
    let listed = client.admin().list(&name, 10).await.expect("a majority answers");
    assert_eq!(listed[0].holder().and_then(|holder| holder.token), Some(guard.token()));
    set.servers[minority].kill();
    let refused = client.admin().list(&name, 10).await.expect_err("no majority answers");
    let text = shown(&refused);
    for server in &set.servers[..=minority] {
        assert!(text.contains(&server.addr().to_string()), "{text}");
    }
}

on_three_and_five!(c31_a_listing_lacks_no_lock_while_a_majority_answers: a_minority_that_is_dead_hides_no_lock);

/// C17: a listing of servers with many other keys is answered, if not in full.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c17_a_listing_stops_after_its_time() {
    const FILL: &str = "for i = 1, 5000 do redis.call('SET', 'other:' .. i, '7') end";
    let set = Set::of(3).await;
    set.cli(&["EVAL", FILL, "0"]);
    let (backend, client) = (set.backend().await, set.client().await);
    let guard = held(&client, "held").await;
    let admin = backend.admin().expect("it has one");
    let cut = admin.list_within("", 10, Duration::ZERO).await.expect_err("no time");
    assert!(cut.to_string().contains("the listing stopped"), "{cut}");
    let held = admin.list_within("", 10, MINUTE).await.expect("an answer");
    assert_eq!(held.len(), 1);
    released(guard).await;
}

/// C19: a server that was stopped does not keep the requests of that time.
async fn servers_that_were_stopped_keep_no_hold(set: Set) {
    let (client, name) = (set.client().await, fresh_name());
    turn(&client, &name).await;
    let stopped = &set.servers[..set.minority()];
    stopped.iter().for_each(RedisServer::stop);
    let guard = held(&client, &name).await;
    // The inspection waits for the stopped servers, and their connections are given up then: the release goes
    // over others.
    let seen = client.admin().inspect(&*name).await.expect("an answer");
    assert_eq!(seen.holder().and_then(|holder| holder.token), Some(guard.token()));
    released(guard).await;
    // This inspection takes as long as the first. After it the release waits in no queue of a connection any
    // more, but for the janitor.
    client.admin().inspect(&*name).await.expect("an answer");
    stopped.iter().for_each(RedisServer::cont);
    eventually("nothing is held", LIMIT, async || !set.held(&name).contains(&true)).await;
}

on_three_and_five!(c19_a_server_that_was_stopped_keeps_no_hold_that_is_over: servers_that_were_stopped_keep_no_hold);

/// C17: a voter has 250 ms. A server that is 130 ms away has time for one round trip only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c17_servers_that_are_far_away_grant() {
    let set = Set::of(3).await;
    let mut proxies = Vec::new();
    for server in &set.servers {
        let proxy = Proxy::start(server.addr()).await;
        proxy.set(Mode::Delay(Duration::from_millis(65)));
        proxies.push(proxy);
    }
    let addresses = proxies.iter().map(|proxy| proxy.addr().to_string());
    let url = format!("redis-quorum://{}", addresses.collect::<Vec<_>>().join(","));
    let connections = || set.servers.iter().map(connections_so_far).collect::<Vec<_>>();
    // A pause of the machine of a tenth of a second costs a connection.
    for _ in 0..10 {
        let before = connections();
        let (client, name) = (client(&url).await, fresh_name());
        let guard = held(&client, &name).await;
        guard.extend(MINUTE).await.expect("it is held");
        released(guard).await;
        turn(&client, &name).await;
        // One for the client, and one for the count.
        let expected: Vec<_> = before.iter().map(|before| before + 2).collect();
        if connections() == expected {
            return;
        }
    }
    panic!("a connection was given up in each round");
}

fn connections_so_far(server: &RedisServer) -> usize {
    let stats = server.cli(&["INFO", "stats"]);
    let mut lines = stats.text().lines();
    let total = lines.find_map(|line| line.strip_prefix("total_connections_received:"));
    total.and_then(|total| total.parse().ok()).expect("it counts")
}

/// C12: a server that lacks a hold is asked for its vote again, while a majority has it.
async fn a_hold_comes_back(set: Set) {
    let (client, name) = (set.client().await, fresh_name());
    let request = patient(&name).ttl(Duration::from_secs(4)).label("web-3");
    let guard = client.acquire(request).await.expect("a free lock");
    eventually("all have it", LIMIT, async || !set.held(&name).contains(&false)).await;
    // A candidate has raised the counter of the first since; another has lost its counter.
    let counter = format!("{{{name}}}:fence");
    let ahead = (guard.token().get() + 1_000_000).to_string();
    for (number, server) in set.servers[..set.minority()].iter().enumerate() {
        server.cli(&["DEL", &name, &counter]);
        if number == 0 {
            server.cli(&["SET", &counter, &ahead]);
        }
    }
    eventually("it is back", LIMIT, async || !set.held(&name).contains(&false)).await;
    for server in &set.servers {
        let value = server.cli(&["GET", &name]);
        assert!(value.text().ends_with(":web-3"), "{value:?}");
    }
    assert_eq!(set.servers[0].cli(&["GET", &counter]).text(), ahead, "a counter never falls");
    released(guard).await;
}

on_three_and_five!(c12_a_hold_comes_back_to_a_server_that_lacks_it: a_hold_comes_back);

/// C10: a hold without a majority is lost, and is not restored.
async fn what_no_majority_has_is_lost(set: Set) {
    let (client, name) = (set.client().await, fresh_name());
    let guard = client.acquire(patient(&name).ttl(Duration::from_secs(4))).await.expect("free");
    eventually("all have it", LIMIT, async || !set.held(&name).contains(&false)).await;
    let majority = &set.servers[..=set.minority()];
    majority.iter().for_each(|server| drop(server.cli(&["DEL", &name])));
    guard.lost().await;
    assert!(!set.held(&name)[..=set.minority()].contains(&true));
}

on_three_and_five!(c10_a_hold_that_no_majority_has_is_lost: what_no_majority_has_is_lost);

/// C24: a majority knows each token that passed, whichever server is down.
async fn a_fence_refuses_what_is_stale(set: Set) {
    let backend = QuorumBackend::connect(&set.url()).await.expect("a connection");
    let (client, name) = (set.client().await, fresh_name());
    let (first, second) = (turn(&client, &name).await, turn(&client, &name).await);
    let fence = backend.fence(&name);
    assert_eq!(fence.seen().await.expect("an answer"), None);
    fence.advance(first).await.expect("the first");
    fence.advance(second).await.expect("a greater one");
    // Servers that were down when the greater token passed, and servers that are down now.
    let (before, now) =
        (&set.servers[..set.minority()], &set.servers[set.minority()..][..set.minority()]);
    before.iter().for_each(|server| drop(server.cli(&["DEL", &format!("{{{name}}}:mark")])));
    now.iter().for_each(RedisServer::stop);
    let refused = fence.advance(first).await;
    assert!(
        matches!(refused, Err(FenceError::Stale { seen, .. }) if seen == second),
        "{refused:?}"
    );
    assert_eq!(fence.seen().await.expect("an answer"), Some(second));
    now.iter().for_each(RedisServer::cont);
}

on_three_and_five!(c24_a_fence_on_a_majority_refuses_what_is_stale: a_fence_refuses_what_is_stale);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_server_by_two_names_is_refused() {
    let servers = [RedisServer::start().await, RedisServer::start().await];
    let [one, two] = [&servers[0], &servers[1]].map(RedisServer::port);
    let url = format!("redis-quorum://127.0.0.1:{one},127.0.0.1:{two},localhost:{two}");
    let error = connect(&url).await.expect_err("one server has two votes").to_string();
    assert!(error.contains("are the same server"), "{error}");
}

/// A primary and its replicas count as one server; the replicas never vote.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_a_primary_and_its_replicas_are_no_quorum() {
    let primary = RedisServer::start().await;
    let port = primary.port().to_string();
    let replicaof = ["--replicaof", "127.0.0.1", &port];
    let replicas =
        [RedisServer::start_with(&replicaof).await, RedisServer::start_with(&replicaof).await];
    for replica in &replicas {
        eventually("it follows", LIMIT, async || {
            replica.cli(&["INFO", "replication"]).text().contains("master_link_status:up")
        })
        .await;
    }
    let [one, two] = [&replicas[0], &replicas[1]].map(RedisServer::addr);
    let url = format!("redis-quorum://{},{one},{two}", primary.addr());
    let error = connect(&url).await.expect_err("they share their data").to_string();
    assert!(error.contains("replicate each other"), "{error}");
}

/// C29: foreign clients of the recipe use the same key on a majority.
async fn foreign_clients_are_kept_out_and_keep_out(set: Set) {
    let (backend, client, name) = (set.backend().await, set.client().await, fresh_name());
    for server in &set.servers[..=set.minority()] {
        server.cli(&["SET", &name, "theirs", "NX", "PX", "60000"]);
    }
    assert!(client.try_acquire(&*name).await.expect("an answer").is_none());
    assert_eq!(backend.capabilities().backend, "redis-quorum");
    for server in &set.servers[..=set.minority()] {
        server.cli(&["DEL", &name]);
    }
    let guard = held(&client, &name).await;
    let taken = set
        .servers
        .iter()
        .filter(|server| server.cli(&["SET", &name, "theirs", "NX", "PX", "60000"]) != Reply::Nil);
    assert!(taken.count() <= set.minority(), "a foreign client has a majority");
    drop(guard);
}

on_three_and_five!(c29_foreign_clients_of_the_recipe_are_kept_out_and_keep_out: foreign_clients_are_kept_out_and_keep_out);
