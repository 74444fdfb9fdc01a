//! C22: tokens grow through what happens to a Redis server.

use std::time::Duration;

use leasehold::core::backend::{Reservation, Reserved};
use leasehold::redis::RedisBackend;
use leasehold::{DistributedLock, LeaseExt, LockError, LockRequest, Wait};
use lock_testkit::{RedisServer, Reply};

use crate::support::{client, fresh_name, turn};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_tokens_grow_through_a_loss_of_all_data() {
    let mut server = RedisServer::start().await;
    let (client, name) = (client(&server.url()).await, fresh_name());
    let first = turn(&client, &name).await;
    server.cli(&["FLUSHALL"]);
    let second = turn(&client, &name).await;
    server.cli(&["SCRIPT", "FLUSH"]);
    let third = turn(&client, &name).await;
    server.kill();
    server.restart().await;
    let fourth = turn(&client, &name).await;
    assert!(
        first < second && second < third && third < fourth,
        "{first} {second} {third} {fourth}"
    );
}

/// A counter ahead of the clock, as after a step of the clock, goes on by one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_counter_ahead_of_the_clock_goes_on() {
    let server = RedisServer::start().await;
    let (client, name) = (client(&server.url()).await, fresh_name());
    server.cli(&["SET", &format!("{{{name}}}:fence"), "9007199254740000"]);
    assert_eq!(turn(&client, &name).await.get(), 9_007_199_254_740_001);
    assert_eq!(turn(&client, &name).await.get(), 9_007_199_254_740_002);
}

/// Tokens are reserved behind the clock alone, so that it is ahead of a counter that is lost. Where they would
/// not be, and where there is no counter, the hold is released.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_no_range_goes_past_the_clock() {
    let server = RedisServer::start().await;
    let backend = RedisBackend::connect(&server.url()).await.expect("a server");
    for (counter, behind_the_clock) in
        [(Some("9007199254740000"), false), (None, false), (Some("1000"), true)]
    {
        let name = fresh_name();
        let fence = format!("{{{name}}}:fence");
        let lease = backend.acquire_lease(&LockRequest::new(&name)).await.expect("a free lock");
        match counter {
            Some(counter) => server.cli(&["SET", &fence, counter]),
            None => server.cli(&["DEL", &fence]),
        };
        tokio::time::sleep(Duration::from_millis(1)).await;
        let hold = Reservation::new(&lease, 2, false);
        let answer = backend.release_or_reserve(&hold).await.expect("an answer");
        let is_reserved = matches!(answer, Reserved::Tokens(_));
        assert_eq!(is_reserved, behind_the_clock, "{counter:?}: {answer:?}");
        let counted = server.cli(&["GET", &fence]);
        match counter {
            Some("1000") => assert_eq!(counted, Reply::Text("1002".into())),
            Some(same) => assert_eq!(counted, Reply::Text(same.into()), "it is as it was"),
            None => assert_eq!(counted, Reply::Nil, "it is as it was"),
        }
    }
}

/// A damaged counter is refused before anything is written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_damaged_counter_is_a_typed_error_and_takes_no_lock() {
    let server = RedisServer::start().await;
    let client = client(&server.url()).await;
    for garbage in ["x", "-1", "1.5", "", "9007199254740991", "9007199254740992"] {
        let name = fresh_name();
        server.cli(&["SET", &format!("{{{name}}}:fence"), garbage]);
        let refused = client.acquire(LockRequest::new(&name).wait(Wait::Never)).await;
        assert!(matches!(refused, Err(LockError::Backend { .. })), "{garbage:?}: {refused:?}");
        assert_eq!(server.cli(&["EXISTS", &name]), Reply::Integer(0), "{garbage:?}");
    }
}

/// Keys of another type in the place of a lock's companions: a typed error, and nothing is written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn companions_of_another_type_are_a_typed_error_and_take_no_lock() {
    let server = RedisServer::start().await;
    let client = client(&server.url()).await;
    for companion in ["fence", "queue"] {
        let name = fresh_name();
        server.cli(&["LPUSH", &format!("{{{name}}}:{companion}"), "x"]);
        let refused = client.acquire(LockRequest::new(&name).wait(Wait::Never)).await;
        let Err(LockError::Backend { source, .. }) = refused else {
            panic!("{companion:?}: {refused:?}");
        };
        assert!(!source.is_transient(), "{source}");
        assert_eq!(server.cli(&["EXISTS", &name]), Reply::Integer(0), "{companion:?}");
    }
}
