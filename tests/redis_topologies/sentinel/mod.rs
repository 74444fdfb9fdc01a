//! A primary with two replicas, and three sentinels.

mod planned;

use std::sync::Arc;

use leasehold::admin::Health;
use leasehold::core::backend::async_trait;
use leasehold::{DistributedLock, LockName};
use lock_testkit::RedisSentinels;
use lock_testkit::conformance::Harness;
use lock_testkit::conformance_tests;
use tokio::sync::OnceCell;

use crate::NEVER;
use crate::forgotten::replicated;
use crate::redis_watches::{holders, shows, unpolled};
use crate::support::{MINUTE, client, finding, fresh_name, held, released, shown, turn, works};

/// Returns the servers of all tests that leave them unchanged.
async fn shared() -> &'static RedisSentinels {
    static SHARED: OnceCell<RedisSentinels> = OnceCell::const_new();
    SHARED.get_or_init(|| RedisSentinels::start(NEVER)).await
}

struct Sentinel(&'static RedisSentinels);

#[async_trait]
impl Harness for Sentinel {
    async fn connect(&self) -> Arc<dyn DistributedLock> {
        crate::support::connected(&self.0.url()).await
    }

    async fn evict(&self, name: &LockName) {
        self.0.servers()[0].cli(&["DEL", name.as_str()]);
    }

    fn tells_changes(&self) -> bool {
        false
    }
}

// The client differs from that of one server only in how it finds it.
conformance_tests! {
    Sentinel(shared().await);
    c02_a_listing_takes_prefixes_as_data
    c04_a_grant_lasts_for_all_of_its_ttl
    c20_a_guard_that_outlives_its_runtime_is_given_back
    c21_no_reply_goes_to_the_wrong_caller
    c22_concurrent_grants_have_distinct_growing_tokens
    c27_a_release_lets_the_next_one_in
    c31_the_doctor_examines_the_server
    c39_tries_for_several_are_never_all_refused
    every_history_agrees_with_the_model
    r2_no_call_keeps_the_thread
}

/// A healthy primary is replaced: it answers that it is a replica now (`READONLY`), and the client asks its
/// successor.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c15_a_primary_that_became_a_replica_is_left_for_its_successor() {
    let sentinels = RedisSentinels::start(NEVER).await;
    let (client, name) = (client(&sentinels.url()).await, fresh_name());
    let guard = held(&client, &name).await;
    replicated(&sentinels.servers()[0], &name, 2);
    sentinels.fail_over().await;
    sentinels.until_replaced(0).await;
    guard.extend(MINUTE).await.expect("it is held, at its new primary");
    let token = guard.token();
    released(guard).await;
    assert!(turn(&client, &name).await > token, "tokens grow");
}

/// C44: a connection to the same primary is replaced with its node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c44_a_watch_hears_over_the_connections_that_follow_a_broken_one() {
    let sentinels = RedisSentinels::start(NEVER).await;
    let primary = &sentinels.servers()[sentinels.primary().expect("a primary")];
    primary.cli(&["CONFIG", "SET", "notify-keyspace-events", "K$gxz"]);
    let (client, name) = (client(&sentinels.url()).await, fresh_name());
    let mut watch = unpolled(&client, &name);
    shows(&mut watch, "a free lock", holders(0)).await;
    for _ in 0..2 {
        primary.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
        let guard = held(&client, &name).await;
        shows(&mut watch, "a grant", holders(1)).await;
        released(guard).await;
        shows(&mut watch, "a release", holders(0)).await;
    }
}

/// C31: the doctor examines the primary that sentinels name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c31_the_primary_is_examined() {
    let role = finding(&client(&shared().await.url()).await, "role").await;
    assert!(role.health == Health::Good && role.seen.contains("replicas"), "{role}");
}

/// C49: databases are separate, and meaningless parameters are refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c49_parameters_are_read_or_refused() {
    let url = shared().await.url();
    let (one, name) = (client(&format!("{url}?db=1")).await, fresh_name());
    works(&one).await;
    let _held = one.acquire(&*name).await.expect("a free lock");
    assert!(client(&url).await.try_acquire(&*name).await.expect("an answer").is_some());
    for (bad, says) in [
        ("redis-sentinel://u:secret@127.0.0.1:1", "name of the primary"),
        ("redis-sentinel://127.0.0.1:1/x?pass=secret", "`pass`"),
        ("redis-sentinel://127.0.0.1:1/x?db=secret", "URL cannot be used"),
        ("redis-sentinel://127.0.0.1:1/x", "cannot be reached"),
        (&*url.replace("mymaster", "nobody"), "no primary of this name"),
    ] {
        let text = shown(&leasehold::connect(bad).await.expect_err(bad));
        assert!(text.contains(says) && !text.contains("secret"), "{bad}: {text}");
    }
}

/// A sentinel that is down does no harm.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_sentinel_will_do() {
    let url = shared().await.url().replace("redis-sentinel://", "redis-sentinel://127.0.0.1:1,");
    works(&client(&url).await).await;
}
