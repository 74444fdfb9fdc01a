//! A primary with two replicas, and three sentinels.

mod failover;

use std::sync::Arc;
use std::time::Duration;

use leasehold::core::backend::async_trait;
use leasehold::{DistributedLock, Health, LockName};
use lock_testkit::RedisSentinels;
use lock_testkit::conformance::Harness;
use lock_testkit::conformance_tests;
use tokio::sync::OnceCell;

use crate::support::{client, fresh_name, prefixes_keep_name_spaces_apart, shown, works};

/// A machine that stands still for a moment must not have the primary replaced.
const NEVER: Duration = Duration::from_secs(60);

/// Soon, for tests that want the primary replaced.
const SOON: Duration = Duration::from_millis(1000);

/// The servers of all tests that leave them as they found them.
async fn shared() -> &'static RedisSentinels {
    static SHARED: OnceCell<RedisSentinels> = OnceCell::const_new();
    SHARED.get_or_init(|| RedisSentinels::start(NEVER)).await
}

struct Sentinel(&'static RedisSentinels);

#[async_trait]
impl Harness for Sentinel {
    async fn connect(&self) -> Arc<dyn DistributedLock> {
        crate::backend(&self.0.url()).await
    }

    async fn evict(&self, name: &LockName) {
        self.0.servers()[0].cli(&["DEL", name.as_str()]);
    }

    fn tells_changes(&self) -> bool {
        false
    }
}

conformance_tests!(Sentinel(shared().await));

/// C31: the doctor looks at the primary that sentinels name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c31_the_primary_is_examined() {
    let findings = client(&shared().await.url()).await.doctor().await.expect("an answer");
    let role = findings.iter().find(|finding| finding.check == "role").expect("a role");
    assert!(role.health == Health::Good && role.seen.contains("replicas"), "{role}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c49_a_prefix_by_url_keeps_name_spaces_apart() {
    prefixes_keep_name_spaces_apart(&shared().await.url()).await;
}

/// C49: databases are apart, and what means nothing is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c49_parameters_are_read_or_refused() {
    let url = shared().await.url();
    let (one, name) = (client(&format!("{url}?db=1")).await, fresh_name());
    works(&one).await;
    let _held = one.acquire(&*name).await.expect("a free lock");
    assert!(client(&url).await.try_acquire(&*name).await.expect("an answer").is_some());
    for (bad, says) in [
        ("redis-sentinel://u:secret@127.0.0.1:1", "names the primary"),
        ("redis-sentinel://127.0.0.1:1/x?pass=secret", "`pass`"),
        ("redis-sentinel://127.0.0.1:1/x?db=secret", "Redis URL"),
        ("redis-sentinel://127.0.0.1:1/x", "cannot be reached"),
        (&*url.replace("mymaster", "nobody"), "no primary of that name"),
    ] {
        let text = shown(&leasehold::connect(bad).await.expect_err(bad));
        assert!(text.contains(says) && !text.contains("secret"), "{bad}: {text}");
    }
}

/// A sentinel that is away does no harm.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_sentinel_will_do() {
    let url = shared().await.url().replace("redis-sentinel://", "redis-sentinel://127.0.0.1:1,");
    works(&client(&url).await).await;
}
