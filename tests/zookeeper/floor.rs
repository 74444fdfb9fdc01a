//! C22: tokens rise above those of earlier ensembles and other stores.

use futures_util::future::join_all;
use leasehold::core::backend::Attempt;
use leasehold::zookeeper::ZooKeeperBackend;
use leasehold::{DistributedLock as _, LockClient, LockError};
use lock_testkit::ZooKeeperServer;
use zookeeper_client::{Acls, Client, CreateMode};

use crate::faults::figure;
use crate::servers::one_member;
use crate::support::{
    a_turn_costs_the_same_whoever_had_the_one_before, client, fresh_name, held, holder_of, patient,
    released, shown,
};

/// The floor of a root of its own, as an operator reads and writes it.
struct Floor {
    url: String,
    folder: String,
    operator: Client,
}

impl Floor {
    async fn of_a_new_root() -> Self {
        let (server, root) = (one_member().await, fresh_name());
        let operator = Client::connect(&server.addr().to_string()).await.expect("a connection");
        let url = format!("zookeeper://{}/{root}", server.addr());
        Self { url, folder: format!("/{root}/floor"), operator }
    }

    async fn client(&self) -> LockClient {
        client(&self.url).await
    }

    /// The name of its node, which there is one of, and how often its data was written.
    async fn read(&self) -> (String, i32) {
        let children = self.operator.list_children(&self.folder).await.expect("its folder");
        let [name] = &children[..] else { panic!("one floor: {children:?}") };
        let (_, stat) = self.operator.get_data(&self.path(name)).await.expect("its node");
        (name.clone(), stat.version)
    }

    async fn replace(&self, name: &str, data: &str) {
        let (before, _) = self.read().await;
        self.operator.delete(&self.path(&before), None).await.expect("an answer");
        let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
        let made = self.operator.create(&self.path(name), data.as_bytes(), &options).await;
        made.expect("an answer");
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.folder)
    }
}

async fn token(client: &LockClient) -> u64 {
    let guard = held(client, "a").await;
    let token = guard.token().get();
    released(guard).await;
    token
}

/// A service that comes back from another store finds the floor where it left it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_floor_behind_the_clock_is_replaced_while_nobody_has_a_claim() {
    let floor = Floor::of_a_new_root().await;
    let before = token(&floor.client().await).await;
    let an_hour_ago = (before - 3_600_000_000).to_string();
    floor.replace(&an_hour_ago, "").await;
    let guard = held(&floor.client().await, "held").await;
    assert!(guard.token().get() > before, "{} after {before}", guard.token());
    floor.replace(&an_hour_ago, "").await;
    let beside = floor.client().await;
    let low = token(&beside).await;
    assert!(low < before, "a floor that others hold under stays: {low}");
    assert_eq!(floor.read().await.0, an_hour_ago);
    assert_eq!(holder_of(&beside, "held").await.token, Some(guard.token()), "it keeps its token");
    released(guard).await;
}

/// Leaders that changed often have lifted the tokens above the clock, and an operator deletes the floor.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_client_writes_no_floor_below_the_one_that_it_knows() {
    let floor = Floor::of_a_new_root().await;
    let client = floor.client().await;
    let before = token(&client).await;
    floor.replace(&(before + 3_600_000_000).to_string(), "").await;
    let ahead = token(&client).await;
    assert!(ahead > before + 3_600_000_000, "{ahead} after {before}");
    let (name, _) = floor.read().await;
    floor.operator.delete(&floor.path(&name), None).await.expect("an answer");
    assert!(token(&client).await > ahead);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_turn_costs_the_same_whoever_had_the_one_before() {
    let server = ZooKeeperServer::start().await;
    let count = async || figure(&server, "zk_packets_received").await;
    a_turn_costs_the_same_whoever_had_the_one_before(&server.url(), count).await;
}

/// A client that comes while others hold locks needs no time of the server, and so writes nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_client_that_connects_beside_claims_writes_nothing() {
    let floor = Floor::of_a_new_root().await;
    let guard = held(&floor.client().await, "held").await;
    let folder = floor.folder.replace("/floor", "/locks");
    let written = async || {
        let (_, stat) = floor.operator.get_data(&folder).await.expect("its node");
        (floor.read().await, stat.mzxid)
    };
    let before = written().await;
    drop(floor.client().await);
    assert_eq!(written().await, before);
    released(guard).await;
}

/// A service with many processes starts: each connects and acquires a lock while others replace the floor.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_clients_that_come_at_once_agree_on_a_floor() {
    for _ in 0..5 {
        let floor = Floor::of_a_new_root().await;
        let granted = (0..40).map(async |_| {
            let backend = ZooKeeperBackend::connect(&floor.url).await.expect("a connection");
            let claim = patient(&fresh_name()).claim().expect("a good request");
            backend.acquire(&claim, None).await
        });
        for attempt in join_all(granted).await {
            assert!(matches!(attempt, Ok(Attempt::Granted(_))), "{attempt:?}");
        }
    }
}

/// Each claim counts at the floor, so that no client replaces the floor beside a claim that came meanwhile. No claim is
/// created under a floor that was replaced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_no_claim_is_made_under_a_floor_that_was_replaced() {
    let floor = Floor::of_a_new_root().await;
    let holder = floor.client().await;
    let guard = held(&holder, "held").await;
    let other = floor.client().await;
    let (name, count) = floor.read().await;
    let before = token(&other).await;
    assert_eq!(floor.read().await, (name, count + 1));
    let later = before + 1_000_000;
    floor.replace(&later.to_string(), "").await;
    assert!(token(&other).await > later);
    assert!(token(&holder).await > later + 1);
    guard
        .extend(std::time::Duration::from_secs(10))
        .await
        .expect("it was made under the floor before");
    released(guard).await;
}

/// S3: a floor of a later format, or a damaged one, is not guessed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_a_floor_that_is_not_understood_grants_nothing() {
    let floor = Floor::of_a_new_root().await;
    drop(floor.client().await);
    let (name, _) = floor.read().await;
    floor.replace(&name, "later:7").await;
    let refused = leasehold::connect(&floor.url).await;
    let Err(error @ LockError::Backend { .. }) = refused else { panic!("{refused:?}") };
    assert!(shown(&error).contains(&floor.path(&name)), "{error:?}");
    assert_eq!(floor.read().await.0, name);
}

/// C22: a stranger may have made the floor for the time of a session, after which tokens would fall.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_floor_that_ends_with_a_session_grants_nothing() {
    let floor = Floor::of_a_new_root().await;
    drop(floor.client().await);
    let (name, _) = floor.read().await;
    floor.operator.delete(&floor.path(&name), None).await.expect("an answer");
    let options = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
    floor.operator.create(&floor.path(&name), &[], &options).await.expect("an answer");
    let refused = leasehold::connect(&floor.url).await;
    let Err(error @ LockError::Backend { .. }) = refused else { panic!("{refused:?}") };
    assert!(shown(&error).contains(&floor.path(&name)), "{error:?}");
}
