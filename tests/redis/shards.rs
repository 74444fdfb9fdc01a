//! Two servers as shards of one list: each keeps its own names through the failure of the other.

use std::time::Duration;

use leasehold::{Health, LockClient, LockError, LockRequest};
use lock_testkit::{RedisServer, eventually};

use crate::support::{LIMIT, client, released, renewed};

const TTL: Duration = Duration::from_secs(2);

async fn two_servers() -> ([RedisServer; 2], String) {
    let servers = [RedisServer::start().await, RedisServer::start().await];
    let url = format!("shards:a={},b={}", servers[0].url(), servers[1].url());
    (servers, url)
}

/// A name that is on the server, as it tells by itself.
async fn name_on(server: &RedisServer, locks: &LockClient) -> String {
    for number in 0.. {
        let name = format!("stock:{number}");
        let guard = locks.acquire(&*name).await.expect("a free lock");
        let is_here = server.cli(&["EXISTS", &name]).integer() == 1;
        released(guard).await;
        if is_here {
            return name;
        }
    }
    unreachable!("each server has names")
}

fn request(name: &str) -> LockRequest {
    LockRequest::new(name).ttl(TTL)
}

/// C12: with requests that have no answer, a renewal of the other server's holds must not wait for them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c12_a_server_that_is_stopped_costs_its_own_holds_alone() {
    let (servers, url) = two_servers().await;
    let locks = client(&url).await;
    let (here, there) = (name_on(&servers[0], &locks).await, name_on(&servers[1], &locks).await);
    let kept = locks.acquire(request(&here)).await.expect("a free lock");
    let lost = locks.acquire(request(&there)).await.expect("a free lock");
    servers[1].stop();
    tokio::time::timeout(LIMIT, lost.lost()).await.expect("the loss is told");
    renewed(&kept).await;
    released(kept).await;
    servers[1].cont();
    eventually("its locks are free again", LIMIT, async || {
        matches!(locks.try_acquire(&*there).await, Ok(Some(_)))
    })
    .await;
}

/// A server that is away when a client starts is used once it is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_away_at_the_start_is_used_later() {
    let (mut servers, url) = two_servers().await;
    let before = client(&url).await;
    let (here, there) = (name_on(&servers[0], &before).await, name_on(&servers[1], &before).await);
    servers[1].kill();
    let locks = client(&url).await;
    released(locks.acquire(request(&here)).await.expect("a free lock")).await;
    let refused = locks.try_acquire(&*there).await;
    let Err(LockError::Backend { source, .. }) = refused else { panic!("{refused:?}") };
    assert!(source.to_string().contains("shard b: "), "{source}");
    let findings = locks.doctor().await.expect("one answers");
    let risk = findings.iter().find(|finding| finding.check == "shards").expect("a finding");
    assert_eq!(risk.health, Health::Risk, "{risk}");
    servers[1].restart().await;
    released(locks.acquire(request(&there)).await.expect("it is back")).await;
}

/// The server's time in µs.
fn time(server: &RedisServer) -> u64 {
    let time = server.cli(&["TIME"]);
    let part = |index: usize| time.array()[index].text().parse::<u64>().expect("a number");
    part(0) * 1_000_000 + part(1)
}

/// A client of a list that the second server joins, and a name that moves there.
async fn moving(servers: &[RedisServer; 2], url: &str) -> (LockClient, String) {
    let name = name_on(&servers[1], &client(url).await).await;
    (client(&url.replace(",b=", ",+b=")).await, name)
}

fn count_from(servers: &[RedisServer; 2], name: &str, counters: [u64; 2]) {
    for (server, counter) in servers.iter().zip(counters) {
        server.cli(&["SET", &format!("{{{name}}}:fence"), &counter.to_string()]);
    }
}

/// Clocks of servers differ, and a name may be new.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_name_moves_to_a_server_whose_clock_is_behind() {
    const BEHIND: u64 = 200_000;
    let (servers, url) = two_servers().await;
    let (locks, name) = moving(&servers, &url).await;
    let ahead = time(&servers[0]) + BEHIND;
    count_from(&servers, &name, [ahead, ahead - BEHIND]);
    let moved = locks.acquire(&*name).await.expect("the clock passes it");
    assert!(moved.token().get() > ahead, "{} after {ahead}", moved.token());
    assert!(time(&servers[1]) > ahead, "its counter is ahead of its clock");
    released(moved).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_name_goes_back_to_where_its_counter_is_old() {
    const WEEK: u64 = 7 * 24 * 60 * 60 * 1_000_000;
    let (servers, url) = two_servers().await;
    let (locks, name) = moving(&servers, &url).await;
    let last = time(&servers[0]) - 1_000_000;
    count_from(&servers, &name, [last, last - WEEK]);
    for request in [LockRequest::new(&name).shared(), LockRequest::new(&name)] {
        let back = locks.try_acquire(request).await.expect("an answer").expect("a free lock");
        assert!(back.token().get() > last, "{} after {last}", back.token());
        released(back).await;
    }
}
