//! A cluster of six servers.

mod moves;
mod renewals;
mod requests;

use std::sync::Arc;

use futures_util::future::join_all;
use leasehold::admin::Health;
use leasehold::core::OwnerId;
use leasehold::core::backend::async_trait;
use leasehold::{DistributedLock, LockError, LockGuard, LockName, LockRequest};
use lock_testkit::conformance::Harness;
use lock_testkit::conformance_tests;
use lock_testkit::{RedisCluster, eventually};
use tokio::sync::OnceCell;

use crate::NEVER;
use crate::support::{MINUTE, client, finding, fresh_name, renewed, works};

/// Returns the cluster of all tests that leave it unchanged.
async fn shared() -> &'static RedisCluster {
    static SHARED: OnceCell<RedisCluster> = OnceCell::const_new();
    SHARED.get_or_init(|| RedisCluster::start(NEVER)).await
}

/// Returns a new name whose slot is on the server `number`.
pub(crate) fn name_at(cluster: &RedisCluster, number: usize) -> String {
    let mut names = std::iter::repeat_with(fresh_name);
    names.find(|name| cluster.primary_of(name) == number).expect("each primary has names")
}

/// Waits until all holds were renewed. None may be lost meanwhile.
async fn all_renewed(guards: &[LockGuard]) {
    join_all(guards.iter().map(renewed)).await;
}

struct Cluster(&'static RedisCluster);

#[async_trait]
impl Harness for Cluster {
    async fn connect(&self) -> Arc<dyn DistributedLock> {
        crate::support::connected(&self.0.url()).await
    }

    async fn evict(&self, name: &LockName) {
        self.0.cli(name.as_str(), &["DEL", name.as_str()]);
    }

    fn tells_changes(&self) -> bool {
        false
    }
}

// The same scripts run on the server of each name. Listings and several locks concern more than one server.
conformance_tests! {
    Cluster(shared().await);
    c02_a_listing_takes_prefixes_as_data
    c02_names_are_data
    c04_a_grant_lasts_for_all_of_its_ttl
    c04_a_hold_that_is_over_is_not_listed
    c08_the_signal_is_sticky_and_tells_the_reason
    c12_a_batch_is_answered_in_its_order
    c12_renewals_go_in_batches
    c16_a_repeated_acquire_finds_its_own_grant
    c19_a_late_request_of_a_withdrawn_claim_is_refused
    c20_a_guard_that_outlives_its_runtime_is_given_back
    c20_shutdown_gives_everything_back
    c21_no_reply_goes_to_the_wrong_caller
    c22_concurrent_grants_have_distinct_growing_tokens
    c22_tokens_grow_through_release_expiry_and_eviction
    c26_waiters_of_a_client_share_one_place
    c27_a_release_lets_the_next_one_in
    c27_first_come_first_served
    c28_a_dead_holder_costs_no_more_than_its_ttl
    c28_a_waiter_that_left_costs_nothing
    c31_the_doctor_examines_the_server
    c34_a_release_lets_in_all_that_fit
    c38_an_inspection_lists_all_holders
    c39_a_dropped_request_for_several_leaves_nothing
    c39_a_lost_reply_of_several_is_found_again
    c39_it_is_all_or_none
    c39_several_locks_are_held_together
    c39_the_rest_is_taken_once_a_busy_lock_is_free
    c39_tries_for_several_are_never_all_refused
    c42_a_run_that_ended_well_is_done
    c44_a_watch_shows_grants_releases_and_evictions
    c46_an_eviction_of_one_takes_its_fence_with_it
    every_history_agrees_with_the_model
    r2_no_call_keeps_the_thread
    s3_of_many_that_try_at_once_one_is_granted
}

/// C31: the doctor examines all primaries, and reports each check once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c31_all_primaries_are_examined() {
    let cluster = shared().await;
    let findings = client(&cluster.url()).await.admin().doctor().await.expect("an answer");
    let found = |check| findings.iter().find(|finding| finding.check == check).expect(check);
    let checks: Vec<_> = findings.iter().map(|finding| finding.check).collect();
    assert_eq!(
        checks,
        ["version", "role", "eviction", "persistence", "watching", "rights", "clock"]
    );
    for good in ["version", "role", "eviction", "rights", "clock"] {
        assert_eq!(found(good).health, Health::Good, "{}", found(good));
    }
    let forgetful = found("persistence");
    assert!(
        forgetful.health == Health::Risk && forgetful.seen.contains("127.0.0.1:"),
        "{forgetful}"
    );
}

/// C31: a dead or silent primary is named, and hides nothing of the others. No listing leaves its locks out
/// silently.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c31_a_dead_primary_hides_no_other() {
    let mut cluster = RedisCluster::start(NEVER).await;
    let client = client(&cluster.url()).await;
    let names = [0, 1, 2].map(|number| name_at(&cluster, number));
    for name in &names {
        let lock = LockRequest::new(name).ttl(MINUTE);
        let _ = client.acquire(lock).await.expect("a free lock").detach().expect("held");
    }
    cluster.servers()[1].stop();
    cluster.server(0).kill();
    let gone = [0, 1].map(|number: usize| cluster.servers()[number].addr().to_string());
    let findings = client.admin().doctor().await.expect("an answer");
    let named = |address: &String| {
        let named = findings.iter().filter(|one| one.check == "server");
        named.filter(|one| one.seen.contains(address)).count()
    };
    assert_eq!(gone.each_ref().map(named), [1, 1], "{findings:?}");
    for check in ["version", "role", "eviction", "persistence", "watching", "clock"] {
        assert!(findings.iter().any(|finding| finding.check == check), "{check}: {findings:?}");
    }
    let refused = client.admin().list("", 10).await.expect_err("it lacks their locks");
    let LockError::Incomplete { held, source } = &refused else { panic!("{refused:?}") };
    let held: Vec<&str> = held.iter().map(|state| state.name.as_str()).collect();
    assert_eq!(held, [&names[2]]);
    let text = crate::support::shown(&refused);
    assert!(source.is_transient() && gone.iter().all(|address| text.contains(address)), "{text}");
}

/// C31: slots that no server has are named, and no listing leaves their locks out silently.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c31_slots_without_a_server_are_named() {
    let cluster = RedisCluster::start(NEVER).await;
    let name = name_at(&cluster, 1);
    let holder = client(&cluster.url()).await;
    let guard = holder.acquire(&name).await.expect("a free lock");
    eventually("nobody has the slots", MINUTE, async || {
        cluster.servers().iter().all(|server| {
            server.cli(&["CLUSTER", "DELSLOTSRANGE", "0", "99"]);
            server.cli(&["CLUSTER", "INFO"]).text().contains("cluster_slots_assigned:16284\r\n")
        })
    })
    .await;
    let admin = client(&cluster.url()).await.admin();
    let refused = admin.list("", 10).await.expect_err("it lacks the locks of the slots");
    let LockError::Incomplete { held, .. } = &refused else { panic!("{refused:?}") };
    let held: Vec<&str> = held.iter().map(|state| state.name.as_str()).collect();
    assert_eq!(held, [&name]);
    let text = crate::support::shown(&refused);
    assert!(text.contains("some slots of the cluster have no server"), "{text}");
    let findings = admin.doctor().await.expect("an answer");
    let named = findings.iter().find(|finding| finding.check == "slots");
    assert_eq!(named.map(|finding| finding.health), Some(Health::Risk), "{findings:?}");
    drop(guard);
}

/// C42: the runs of a lock are on its server, so that no other server hides them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c42_a_dead_primary_hides_no_run_of_another() {
    let mut cluster = RedisCluster::start(NEVER).await;
    let client = client(&cluster.url()).await;
    let names = [0, 1].map(|number| name_at(&cluster, number));
    for name in &names {
        let ran = client.once(name).occurrence("monday").run(async |_| ()).await;
        drop(ran.expect("it ran"));
    }
    let gone = cluster.servers()[0].addr().to_string();
    cluster.server(0).kill();
    let runs = client.admin().runs(&names[1]).await.expect("its server answers");
    assert_eq!(runs.len(), 1, "{runs:?}");
    let refused = client.admin().runs(&names[0]).await.expect_err("its server is dead");
    let text = crate::support::shown(&refused);
    assert!(text.contains(&gone), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c15_one_server_of_a_cluster_is_named() {
    let cluster = shared().await;
    let client = client(&cluster.servers()[0].url()).await;
    let refused = client.acquire(name_at(cluster, 1)).await.expect_err("its slot is elsewhere");
    let text = crate::support::shown(&refused);
    assert!(text.contains("by redis-cluster://"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_the_servers_of_a_cluster_are_no_quorum() {
    let url = shared().await.url().replace("redis-cluster:", "redis-quorum:");
    let (three, _) = url.rsplit_once(',').expect("six");
    let three = three.rsplitn(3, ',').last().expect("five");
    let refused = leasehold::connect(three).await.expect_err("they share the slots");
    let text = crate::support::shown(&refused);
    assert!(text.contains("by redis-cluster://"), "{text}");
}

/// C31: the client's requests for a moving slot, and the script's question for listeners.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c31_rights_that_only_a_cluster_takes_are_named() {
    let cluster = shared().await;
    for (missing, named) in [("-asking", "+asking"), ("-pubsub", "+pubsub|numsub")] {
        let user = fresh_name();
        for server in cluster.servers() {
            let rights = ["ACL", "SETUSER", &user, "on", "nopass", "~*", "&*", "+@all", missing];
            assert_eq!(server.cli(&rights).to_string(), "OK");
        }
        let url =
            cluster.url().replace("redis-cluster://", &format!("redis-cluster://{user}:any@"));
        let rights = finding(&client(&url).await, "rights").await;
        assert!(rights.health == Health::Risk && rights.to_string().contains(named), "{rights}");
    }
}

/// C2: a listing finds the locks of all primaries.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c02_a_listing_shows_the_locks_of_all_primaries() {
    let cluster = shared().await;
    let (client, tag) = (client(&cluster.url()).await, OwnerId::random().expose());
    let mut guards = Vec::new();
    for i in 0..40 {
        guards.push(client.acquire(format!("{tag}{{{i:02}}}")).await.expect("a free lock"));
    }
    let listed = client.admin().list(&tag, 100).await.expect("an answer");
    let listed: Vec<_> = listed.iter().map(|state| state.name.as_str().to_owned()).collect();
    let names: Vec<_> = (0..40).map(|i| format!("{tag}{{{i:02}}}")).collect();
    assert_eq!(listed, names);
    client.shutdown().await;
}

/// One host of the cluster is enough, even a replica, and a host that is down does no harm.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_host_of_the_cluster_will_do() {
    let cluster = shared().await;
    let replica = cluster.servers()[5].addr();
    works(&client(&format!("redis-cluster://{replica}")).await).await;
    works(&client(&format!("redis-cluster://127.0.0.1:1,{replica}/0?protocol=resp3")).await).await;
}

/// C49: parameters without effect are refused, and a server that is no cluster is named.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c49_urls_that_mean_no_cluster_are_refused() {
    let one = lock_testkit::RedisServer::start().await.addr();
    for (url, says) in [
        ("redis-cluster://h:secret/1".to_owned(), "URL cannot be used"),
        ("redis-cluster://u:secret@h/1".to_owned(), "one database"),
        ("redis-cluster://u:secret@h?db=1".to_owned(), "`db`"),
        (format!("redis-cluster://{one}"), "cannot be reached"),
    ] {
        let text = crate::support::shown(&leasehold::connect(&url).await.expect_err(&url));
        assert!(text.contains(says) && !text.contains("secret"), "{text}");
    }
    let alone = lock_testkit::RedisServer::start().await;
    let text = crate::support::refusal(&format!("redis-cluster://{}", alone.addr())).await;
    assert!(text.contains("connect by redis://"), "{text}");
}
