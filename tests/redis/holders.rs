//! C45: the facts about a holder on a Redis server.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold::core::backend::Attempt;
use leasehold::redis::RedisBackend;
use leasehold::{DistributedLock, LockClient, LockRequest};
use lock_testkit::RedisServer;

use crate::support::{
    MINUTE, client, fresh_name, held, holder_of, patient, queued, released, served,
};

/// Returns the server's time, in whole milliseconds as in a lock's value.
fn server_time(server: &RedisServer) -> SystemTime {
    let time = server.cli(&["TIME"]);
    let part = |index: usize| time.array()[index].text().parse::<u64>().expect("a number");
    UNIX_EPOCH + Duration::from_millis(part(0) * 1000 + part(1) / 1000)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c45_a_holder_tells_since_when_it_holds() {
    let server = RedisServer::start().await;
    let (client, name) = (client(&server.url()).await, fresh_name());
    let before = server_time(&server);
    let guard = client.acquire(patient(&name).label("a:label")).await.expect("a free lock");
    let granted = before..=server_time(&server);
    let since = holder_of(&client, &name).await.since.expect("it is told");
    assert!(granted.contains(&since), "{since:?} is not in {granted:?}");

    guard.extend(MINUTE * 2).await.expect("it is held");
    let extended = holder_of(&client, &name).await;
    assert_eq!((extended.since, extended.label.as_str()), (Some(since), "a:label"));
    let listed = client.admin().list(&name, 1).await.expect("an answer").pop().expect("it is held");
    assert_eq!(listed.holder().and_then(|holder| holder.since), Some(since));
    let evicted = client.admin().evict(&name).await.expect("an answer").pop().expect("it was held");
    assert_eq!(evicted.since, Some(since));
}

/// C16: a repeated request finds the hold as it was granted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c45_a_repeat_keeps_the_time_of_the_grant() {
    let server = RedisServer::start().await;
    let lock = RedisBackend::connect(&server.url()).await.expect("a connection");
    let (client, name) = (LockClient::new(lock.clone()), fresh_name());
    let claim = LockRequest::new(&name).ttl(MINUTE).claim().expect("a valid request");
    let mut seen = Vec::new();
    for _ in 0..2 {
        let attempt = lock.acquire(&claim, None).await.expect("an answer");
        assert!(matches!(attempt, Attempt::Granted(_)), "{attempt:?}");
        let since = holder_of(&client, &name).await.since.expect("it is told");
        while server_time(&server) == since {}
        seen.push(since);
    }
    assert_eq!(seen[0], seen[1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c45_a_hand_over_has_a_time_of_its_own() {
    let server = RedisServer::start().await;
    let (first, second) = (client(&server.url()).await, client(&server.url()).await);
    let name = fresh_name();
    let guard = held(&first, &name).await;
    let waiting = queued(&second, &first, patient(&name), &name).await;
    let before = server_time(&server);
    released(guard).await;
    let guard = served(waiting).await;
    let handed_over = before..=server_time(&server);
    let since = holder_of(&first, &name).await.since.expect("it is told");
    assert!(handed_over.contains(&since), "{since:?} is not in {handed_over:?}");
    released(guard).await;
}

/// C38: of a long queue the dead waiters are counted too, so that a look stays short.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c38_a_long_queue_is_counted_and_not_read() {
    let server = RedisServer::start().await;
    let (client, name) = (client(&server.url()).await, fresh_name());
    let dead = |count: u32| {
        for number in 0..count {
            let owner = format!("{number:032x}");
            server.cli(&["ZADD", &format!("{{{name}}}:queue"), "1", &owner]);
            server.cli(&["HSET", &format!("{{{name}}}:waiters"), &owner, "1:60000:poll:"]);
        }
    };
    let waiters = async || client.admin().inspect(&name).await.expect("an answer").waiters;
    dead(100);
    assert_eq!(waiters().await, Some(0));
    dead(101);
    assert_eq!(waiters().await, Some(101));
}
