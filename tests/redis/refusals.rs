//! Errors of a server that cannot keep locks in its present state: a test for each row of the table in
//! `docs/operating.md`.

use std::sync::Arc;
use std::time::Duration;

use leasehold::admin::Health;
use leasehold::redis::RedisBackend;
use leasehold::{DistributedLock, LockClient, LockError, LockRequest, Wait};
use lock_testkit::{RedisSentinels, RedisServer, eventually};

use crate::queue::claim;
use crate::rights::user_without;
use crate::support::{
    LIMIT, MINUTE, SECRET, client, finding, fresh_name, held, patient, queued, refusal, released,
    served, shown, works,
};

/// Nothing is replaced while a test runs.
const NEVER: Duration = MINUTE;

/// Returns the reason why a lock cannot be acquired within a moment.
async fn why_not(client: &LockClient) -> String {
    let request = LockRequest::new(fresh_name()).wait(Wait::AtMost(Duration::from_secs(3)));
    shown(&client.acquire(request).await.expect_err("it keeps no locks"))
}

/// Returns the doctor's text on the check that is not good.
async fn risk(client: &LockClient, check: &str) -> String {
    let found = finding(client, check).await;
    assert_eq!(found.health, Health::Risk, "{found}");
    found.to_string()
}

fn assert_says(text: &str, parts: &[&str]) {
    assert!(parts.iter().all(|part| text.contains(part)), "{parts:?}: {text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c15_a_sentinel_asked_for_locks_is_named() {
    let sentinels = RedisSentinels::start(NEVER).await;
    let url = sentinels.url();
    let address = url.trim_start_matches("redis-sentinel://").split([',', '/']).next();
    let client = client(&format!("redis://{}", address.expect("a sentinel"))).await;
    assert_says(&why_not(&client).await, &["is a sentinel", "redis-sentinel://host/mymaster"]);
    assert_says(&risk(&client, "role").await, &["is a sentinel", "redis-sentinel://"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c15_a_server_asked_as_a_sentinel_is_named() {
    let server = RedisServer::start().await;
    let text = refusal(&format!("redis-sentinel://{}/mymaster", server.addr())).await;
    assert_says(&text, &["is no sentinel", "redis://"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c15_a_replica_is_named() {
    let primary = RedisServer::start().await;
    let port = primary.port().to_string();
    let replica = RedisServer::start_with(&["--replicaof", "127.0.0.1", &port]).await;
    let client = client(&replica.url()).await;
    assert_says(&why_not(&client).await, &["READONLY", "it is a replica; name its primary"]);
    // A replica may lack the newest hold.
    let evicted = client.admin().evict(fresh_name()).await.expect_err("it ends no holds");
    assert_says(&shown(&evicted), &["READONLY", "it is a replica; name its primary"]);
}

/// The user has all rights.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c31_a_clock_that_cannot_be_trusted_is_no_missing_right() {
    let server = RedisServer::start_with_clock(&[]).await;
    let ahead = Duration::from_secs(2 * 24 * 60 * 60);
    server.clock().expect("it has one").set_forward(ahead);
    let client = client(&server.url()).await;
    assert_says(&risk(&client, "writes").await, &["the server's clock cannot be trusted"]);
    assert_says(&risk(&client, "clock").await, &["ahead of ours"]);
    let findings = client.admin().doctor().await.expect("an answer");
    assert!(findings.iter().all(|finding| finding.check != "rights"), "{findings:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c15_a_server_that_is_full_says_what_of() {
    let server = RedisServer::start().await;
    let client = client(&server.url()).await;
    for (setting, value, says) in
        [("maxmemory", "1", "maxmemory"), ("min-replicas-to-write", "1", "min-replicas-to-write")]
    {
        server.cli(&["CONFIG", "SET", setting, value]);
        assert_says(&why_not(&client).await, &[says]);
        server.cli(&["CONFIG", "SET", setting, "0"]);
    }
    works(&client).await;
    server.cli(&["CONFIG", "SET", "maxclients", "1"]);
    let full = leasehold::connect(&server.url()).await.expect_err("it is full");
    let LockError::Backend { source, .. } = &full else { panic!("{full:?}") };
    assert!(source.is_transient(), "{full}");
    assert_says(&shown(&full), &["maxclients"]);
}

/// Makes a user with all rights but those on keys and channels.
fn user(server: &RedisServer, keys_and_channels: &[&str]) -> String {
    let (name, secret) = (format!("user-{}", fresh_name()), format!(">{SECRET}"));
    let user = ["ACL", "SETUSER", &name, "on", &secret, "resetchannels", "+@all"];
    assert_eq!(server.cli(&[&user[..], keys_and_channels].concat()).to_string(), "OK");
    format!("redis://{name}:{SECRET}@{}", server.addr())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c15_a_user_without_a_command_is_told_which() {
    let server = RedisServer::start().await;
    let client = client(&user_without(&server, "+set")).await;
    assert_says(&why_not(&client).await, &["may not run SET", "grant +set"]);
    assert_says(&risk(&client, "rights").await, &["may not run SET", "grant +set"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c15_a_user_without_the_keys_is_told_so() {
    let server = RedisServer::start().await;
    let client = client(&user(&server, &["~shop:*", "~{shop:*", "&leasehold-*"])).await;
    let says = ["the key of the lock", "~NAME ~{NAME}:*"];
    assert_says(&why_not(&client).await, &says);
    assert_says(&risk(&client, "rights").await, &says);
}

/// C15: the hold is still over, and the error names the right. A wait reports it too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c15_a_user_without_the_channel_is_told_so() {
    let server = RedisServer::start().await;
    let (able, url) = (client(&server.url()).await, user(&server, &["~*"]));
    let (mute, backend) =
        (client(&url).await, RedisBackend::connect(&url).await.expect("a connection"));
    let holder = claim(&fresh_name());
    let name = holder.name.as_str();
    backend.acquire(&holder, None).await.expect("it is free");
    let waiting = queued(&able, &able, patient(name), name).await;
    let refused = backend.release(&holder.name, holder.owner).await;
    assert_says(&shown(&refused.expect_err("nobody can be told")), &["grant &leasehold-*"]);
    let guard = served(waiting).await;
    let refused = mute.acquire(patient(name)).await.expect_err("it cannot be woken");
    assert_says(&shown(&refused), &["channel", "grant &leasehold-*"]);
    released(guard).await;
    assert_says(&risk(&mute, "rights").await, &["channels of clients", "grant &leasehold-*"]);
}

/// C15: the lock is free, so the work has no error, and a warning names the right. C28: a waiter polls.
#[tokio::test]
async fn c15_a_release_that_wakes_nobody_is_no_error_and_a_warning() {
    let log = tempfile::NamedTempFile::new().expect("a file");
    let writer = Arc::new(log.reopen().expect("a file"));
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(writer).finish();
    let _listening = tracing::subscriber::set_default(subscriber);
    let server = RedisServer::start().await;
    let (able, mute) = (client(&server.url()).await, client(&user(&server, &["~*"])).await);
    let name = fresh_name();
    let guard = mute.try_acquire(&*name).await.expect("an answer").expect("a free lock");
    let waiting = queued(&able, &able, patient(&name), &name).await;
    released(guard).await;
    released(served(waiting).await).await;
    let told = std::fs::read_to_string(log.path()).expect("a text");
    let warned =
        told.lines().find(|line| line.contains("WARN")).unwrap_or_else(|| panic!("{told}"));
    assert_says(warned, &["waiters may not be woken", &name, "grant &leasehold-*"]);
}

#[cfg(feature = "redis-rustls")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c15_a_server_without_tls_and_one_with_it_are_told_apart() {
    let (plain, tls) = (RedisServer::start().await, lock_testkit::TlsRedis::start().await);
    let text = refusal(&plain.url().replace("redis:", "rediss:")).await;
    assert_says(&text, &["speaks no TLS", "say redis, not rediss"]);
    let text = refusal(&tls.url().replace("rediss:", "redis:")).await;
    assert_says(&text, &["speaks TLS (say rediss, not redis)"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c15_a_proxy_without_scripts_is_named() {
    let server = RedisServer::start_with(&["--rename-command", "EVALSHA", ""]).await;
    let client = client(&server.url()).await;
    let says = ["has no EVALSHA", "connect to the server itself"];
    assert_says(&why_not(&client).await, &says);
    assert_says(&risk(&client, "commands").await, &says);
}

/// C28: a waiter without notifications polls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_a_wait_behind_a_proxy_without_subscriptions_polls() {
    let server = RedisServer::start_with(&["--rename-command", "SUBSCRIBE", ""]).await;
    let (holder, waiter, name) =
        (client(&server.url()).await, client(&server.url()).await, fresh_name());
    let guard = held(&holder, &name).await;
    let waiting = tokio::spawn(async move { (waiter.acquire(patient(&name)).await, waiter) });
    eventually("it waits", LIMIT, async || server.cli(&["KEYS", "*:queue"]).array().len() == 1)
        .await;
    released(guard).await;
    let (granted, waiter) = waiting.await.expect("no panic");
    released(granted.expect("its turn comes")).await;
    assert_says(&risk(&waiter, "commands").await, &["has no SUBSCRIBE", "looks once a second"]);
}

/// C32: the error names a misplaced part of a URL, and does not show it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c32_urls_that_are_read_otherwise_than_they_are_meant_are_explained() {
    for (url, says) in [
        ("redis://:secret/x@h", "write / as %2F"),
        ("redis-cluster://:secret/x@h,i", "write / as %2F"),
        ("redis-quorum://:secret@a,:secret@b,:secret@c", "write them once, before the first"),
        ("redis-cluster://:secret@a,:secret@b", "write them once, before the first"),
        ("redis-sentinel://:secret@a,:secret@b/name", "write them once, before the first"),
        ("redis://[fe80::1%25eth0]", "give the host a name"),
        ("redis-quorum://[fe80::1%25eth0],b,c", "give the host a name"),
    ] {
        let refused = leasehold::connect(url).await.expect_err(url);
        assert!(matches!(refused, LockError::Config { .. }), "{url}: {refused:?}");
        let text = shown(&refused);
        assert!(text.contains(says) && !text.contains("secret"), "{url}: {text}");
    }
}
