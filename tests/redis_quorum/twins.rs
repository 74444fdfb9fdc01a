//! S3: an address of the set that leads to another server of the set, as a name or a virtual address may: that server
//! has one vote.

use futures_util::future::join_all;
use leasehold::admin::Health;
use leasehold::core::backend::{Extension, Renewal};
use leasehold::redis::QuorumBackend;
use leasehold::{DistributedLock, Fence, FenceError, LockClient, LockRequest, Ttl};
use lock_testkit::{Mode, Proxy};

use crate::set::Set;
use crate::support::{MINUTE, finding, fresh_name, held, released, shown};

/// Three servers, and a client that reaches them by three addresses.
struct Twins {
    set: Set,
    proxies: Vec<Proxy>,
    client: QuorumBackend,
}

impl Twins {
    async fn start() -> Self {
        let set = Set::of(3).await;
        let proxies = join_all(set.servers.iter().map(|server| Proxy::start(server.addr()))).await;
        let addresses: Vec<_> = proxies.iter().map(|proxy| proxy.addr().to_string()).collect();
        let url = format!("redis-quorum://{}", addresses.join(","));
        let client = QuorumBackend::connect(&url).await.expect("a connection");
        Self { set, proxies, client }
    }

    /// Leads the first address to the second server, and cuts the third server off.
    fn begin(&self) {
        self.proxies[0].lead_to(self.set.servers[1].addr());
        self.proxies[2].set(Mode::Refuse);
        self.proxies.iter().for_each(Proxy::cut);
    }
}

fn says_so(text: &str) {
    assert!(text.contains("it is the same server as 127.0.0.1:"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_a_server_with_two_addresses_grants_by_one_vote() {
    let twins = Twins::start().await;
    twins.begin();
    let claim = LockRequest::new(fresh_name()).claim().expect("a claim");
    for _ in 0..3 {
        let refused = twins.client.acquire(&claim, None).await.expect_err("two votes are needed");
        assert!(refused.is_transient(), "{refused}");
    }
    let refused = twins.client.acquire(&claim, None).await.expect_err("two votes are needed");
    says_so(&refused.to_string());
    // Nothing of the attempts is left, and the others have a majority.
    released(held(&twins.set.client().await, claim.name.as_str()).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_a_server_with_two_addresses_extends_and_releases_by_one_vote() {
    let twins = Twins::start().await;
    let locks = LockClient::new(twins.client.clone());
    let lease = held(&locks, &fresh_name()).await.detach().expect("it is held");
    twins.begin();
    let renewal = Renewal::new(&lease, Ttl::new(MINUTE).expect("a TTL"));
    let renew = async || twins.client.extend(std::slice::from_ref(&renewal)).await.pop();
    // The first requests find their connections cut.
    let mut refused = String::new();
    for _ in 0..3 {
        let extended = renew().await.expect("an answer");
        assert!(!matches!(extended, Ok(Extension::Extended(_))), "{extended:?}");
        refused = extended.expect_err("one server has it").to_string();
    }
    says_so(&refused);
    let released = twins.client.release(lease.name(), lease.owner()).await;
    says_so(&released.expect_err("one server knows of it").to_string());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_a_server_with_two_addresses_counts_once_for_a_fence() {
    let twins = Twins::start().await;
    let guard = held(&twins.set.client().await, &fresh_name()).await;
    let fence = twins.client.fence("a");
    twins.begin();
    let mut refused = String::new();
    for _ in 0..3 {
        let Err(FenceError::Backend(error)) = fence.advance(guard.token()).await else {
            panic!("one server is no majority")
        };
        refused = error.to_string();
    }
    says_so(&refused);
    fence.seen().await.expect_err("nor can it tell");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c31_an_address_that_leads_to_another_server_is_named() {
    let twins = Twins::start().await;
    twins.proxies[0].lead_to(twins.set.servers[1].addr());
    twins.proxies[0].cut();
    let client = LockClient::new(twins.client.clone());
    client.admin().inspect("a").await.map_err(|error| shown(&error)).expect("two answer");
    let quorum = finding(&client, "quorum").await;
    assert_eq!(quorum.health, Health::Risk, "{quorum}");
    says_so(&quorum.seen);
}

/// The server of one address is away at first, so that the client cannot compare the two.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_a_server_with_two_addresses_may_come_later() {
    let twins = Twins::start().await;
    twins.proxies[0].set(Mode::Refuse);
    let addresses: Vec<_> = twins.proxies.iter().map(|proxy| proxy.addr().to_string()).collect();
    let url = format!("redis-quorum://{}", addresses.join(","));
    let late = QuorumBackend::connect(&url).await.expect("two answer");
    twins.begin();
    twins.proxies[0].set(Mode::Pass);
    let claim = LockRequest::new(fresh_name()).claim().expect("a claim");
    for _ in 0..3 {
        late.acquire(&claim, None).await.expect_err("two votes are needed");
    }
}
