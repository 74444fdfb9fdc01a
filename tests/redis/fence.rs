//! C24, C25: the side of the resource on Redis.

use leasehold::core::backend::Prefixed;
use leasehold::redis::redis::{Client, Value, pipe};
use leasehold::redis::{FencedScript, RedisBackend};
use leasehold::{Fence, FenceError, LockClient};
use lock_testkit::{RedisServer, Reply};

use crate::support::{check_remembers_nothing, fresh_name, patient};

/// S1: a write below the fence is refused; the accepted writes are in the order of the tokens.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c24_a_stale_holder_can_neither_advance_nor_write() {
    let server = RedisServer::start().await;
    let lock = RedisBackend::connect(&server.url()).await.expect("a connection");
    let (locks, name) = (LockClient::new(lock.clone()), fresh_name());
    let fence = lock.fence("stock");

    let stale = locks.acquire(patient(&name)).await.expect("a free lock");
    fence.advance(stale.token()).await.expect("the only one");
    fence.set(stale.token(), "stock", 99).await.expect("the only one");
    server.cli(&["DEL", &name]);

    let holder = locks.acquire(patient(&name)).await.expect("it is free");
    fence.advance(holder.token()).await.expect("the newest");
    // The stale holder is already refused between the new holder's read and its write.
    let refused = fence.set(stale.token(), "stock", 50).await;
    assert!(matches!(refused, Err(FenceError::Stale { seen, .. }) if seen == holder.token()));
    assert_eq!(server.cli(&["GET", "stock"]).text(), "99");
    fence.set(holder.token(), "stock", 98).await.expect("the newest");
    assert!(matches!(fence.advance(stale.token()).await, Err(FenceError::Stale { .. })));
    assert_eq!(server.cli(&["GET", "stock"]).text(), "98");
    // The mark belongs to the resource: it outlives the lock.
    holder.release().await.expect("an answer");
    assert_eq!(server.cli(&["PTTL", "{stock}:mark"]), Reply::Integer(-1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c35_a_check_remembers_nothing() {
    let server = RedisServer::start().await;
    let lock = RedisBackend::connect(&server.url()).await.expect("a connection");
    check_remembers_nothing(&lock.fence("stock")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_mark_is_a_typed_error() {
    let server = RedisServer::start().await;
    let lock = RedisBackend::connect(&server.url()).await.expect("a connection");
    let token = LockClient::new(lock.clone()).acquire("x").await.expect("a free lock").token();
    server.cli(&["SET", "{stock}:mark", "garbage"]);
    let refused = lock.fence("stock").set(token, "stock", 1).await;
    assert!(matches!(refused, Err(FenceError::Backend(_))), "{refused:?}");
    assert_eq!(server.cli(&["EXISTS", "stock"]), Reply::Integer(0));
}

/// C24: the same check over the application's own connection, in a transaction with its other commands.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c24_a_script_is_fenced_over_any_connection() {
    let server = RedisServer::start().await;
    let lock = RedisBackend::connect(&server.url()).await.expect("a connection");
    let (locks, fence) = (LockClient::new(lock.clone()), lock.fence("stock"));
    let stale = locks.acquire("x").await.expect("a free lock").token();
    let newer = locks.acquire("y").await.expect("a free lock").token();
    let own = Client::open(server.url()).expect("a good URL");
    let mut own = own.get_multiplexed_async_connection().await.expect("a connection");
    let sell = FencedScript::new("return redis.call('INCRBY', KEYS[1], ARGV[1])");
    let mut sold = async |token, keys: &[&str]| {
        let call = fence.script(token, &sell, keys, 2);
        let mut both = pipe();
        both.atomic().add_command(call.command()).incr("others", 1).ignore();
        let (answer,): (Value,) =
            both.query_async(&mut own).await.map_err(|error| error.to_string())?;
        call.read::<i64>(answer).map_err(|error| error.to_string())
    };
    assert_eq!(sold(stale, &["sold"]).await, Ok(2));
    assert_eq!(sold(newer, &["sold"]).await, Ok(4));
    let refused = sold(stale, &["sold"]).await.expect_err("it is stale");
    assert!(refused.contains(&newer.to_string()), "{refused}");
    assert_eq!(server.cli(&["GET", "sold"]).text(), "4");
    assert_eq!(fence.seen().await.expect("an answer"), Some(newer));
    let refused = sold(newer, &["x"]).await.expect_err("the key of a lock");
    assert!(refused.contains("LOCKKEY"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c24_a_script_runs_only_if_the_fence_allows() {
    let server = RedisServer::start().await;
    let lock = RedisBackend::connect(&server.url()).await.expect("a connection");
    let (locks, name) = (LockClient::new(lock.clone()), fresh_name());
    let fence = lock.fence("stock");
    let sell = FencedScript::new("return redis.call('DECRBY', KEYS[1], ARGV[1])");

    let stale = locks.acquire(patient(&name)).await.expect("a free lock");
    let left: i64 = fence.run(stale.token(), &sell, &["left"], 3).await.expect("the only one");
    assert_eq!(left, -3);
    server.cli(&["DEL", &name]);
    let holder = locks.acquire(patient(&name)).await.expect("it is free");
    let left: i64 = fence.run(holder.token(), &sell, &["left"], 1).await.expect("the newest");
    assert_eq!(left, -4);
    let refused = fence.run::<i64>(stale.token(), &sell, &["left"], 1).await;
    assert!(matches!(refused, Err(FenceError::Stale { seen, .. }) if seen == holder.token()));
    assert_eq!(server.cli(&["GET", "left"]).text(), "-4");

    let keys = ["one", "two"];
    let answers = FencedScript::new("return { #KEYS, KEYS[2], #ARGV, ARGV[2] }");
    let told: (u64, String, u64, String) =
        fence.run(holder.token(), &answers, &keys, &["x", "y"]).await.expect("the newest");
    assert_eq!(told, (2, "two".into(), 2, "y".into()));
    let several = FencedScript::new("return string.gsub('2024-01', '-', '')");
    let told: String =
        fence.run(holder.token(), &several, &[], None::<u64>).await.expect("the newest");
    assert_eq!(told, "202401", "the first value is the answer");
    let nothing = FencedScript::new("return nil");
    let told: Option<u64> =
        fence.run(holder.token(), &nothing, &[], None::<u64>).await.expect("the newest");
    assert_eq!(told, None);
    let failing = FencedScript::new("return redis.call('INCR', KEYS[1])");
    server.cli(&["SET", "text", "words"]);
    let failed = fence.run::<i64>(holder.token(), &failing, &["text"], None::<u64>).await;
    assert!(matches!(failed, Err(FenceError::Backend(_))), "{failed:?}");
}

/// The key of a lock is its record: a write there would end the hold, and then keep everybody out for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c24_no_fenced_write_replaces_a_lock_or_the_mark() {
    let server = RedisServer::start().await;
    let lock = RedisBackend::connect(&server.url()).await.expect("a connection");
    let (locks, name) = (LockClient::new(lock.clone()), fresh_name());
    let (fence, mark) = (lock.fence(&name), format!("{{{name}}}:mark"));
    let guard = locks.acquire(patient(&name)).await.expect("a free lock");
    let token = guard.token();
    let write = FencedScript::new("return redis.call('SET', KEYS[2], ARGV[1])");
    let refused = async |key: &str| {
        let set = fence.set(token, key, 7).await.expect_err("it is the lock's");
        let run = fence.run::<String>(token, &write, &["other", key], 7).await;
        for refused in [set, run.expect_err("it is the lock's")] {
            let text = refused.to_string();
            assert!(text.contains(&format!("{key}:data")), "{text}");
        }
    };
    refused(&name).await;
    refused(&mark).await;
    assert_eq!(fence.seen().await.expect("an answer"), None, "nothing was written");
    fence.set(token, &format!("{name}:data"), 7).await.expect("it is the data's own key");
    guard.release().await.expect("it was held to the end");
    // Nobody holds it, and a value without a TTL would keep everybody out.
    refused(&name).await;
    assert_eq!(server.cli(&["EXISTS", &name]), Reply::Integer(0));
}

/// C49: a prefix separates the marks of services, as it separates their locks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c49_services_with_different_prefixes_have_different_marks() {
    let server = RedisServer::start().await;
    let store = RedisBackend::connect(&server.url()).await.expect("a connection");
    let service = |prefix| Prefixed::new(store.clone(), prefix).expect("a good prefix");
    let (shop, depot) = (service("shop:"), service("depot:"));
    let token = async |service: &Prefixed<RedisBackend>| {
        let guard = LockClient::new(service.clone()).acquire("stock").await.expect("a free lock");
        guard.token()
    };
    let earlier = token(&shop).await;
    let later = token(&depot).await;
    depot.fence("stock").advance(later).await.expect("the newest");
    shop.fence("stock").advance(earlier).await.expect("the newest of its own");
    assert_eq!(server.cli(&["GET", "{shop:stock}:mark"]).text(), earlier.to_string());
}
