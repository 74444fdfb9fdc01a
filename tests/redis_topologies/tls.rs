//! A cluster and sentinels by TLS, also while a server is replaced.

use std::sync::Arc;

use leasehold::redis::RedisOptions;
use leasehold::{Certificates, LockClient};
use lock_testkit::{RedisCluster, RedisSentinels, Signed, eventually};

use crate::forgotten::replicated;
use crate::support::{
    LIMIT, MINUTE, client_of, fresh_name, held, refusal, released, shown, turn, works,
};
use crate::{NEVER, SOON, cluster, support};

/// Returns a client that trusts the servers, which demand a certificate of each client.
async fn trusting(url: String, certificates: &lock_testkit::Certificates) -> LockClient {
    let [certificate, key] = certificates.sign_client(Signed::Well);
    let certificates = Certificates::new().authority(certificates.ca_path());
    let options = RedisOptions::new(url).certificates(certificates.identity(certificate, key));
    client_of(Arc::new(options.connect().await.expect("a connection")))
}

/// Locks of all primaries; a client of a cluster connects to each of them separately.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_reached_by_tls() {
    let servers = RedisCluster::start_tls(NEVER).await;
    let client = trusting(servers.url(), servers.certificates()).await;
    works(&client).await;
    for number in 0..3 {
        turn(&client, &cluster::name_at(&servers, number)).await;
    }
    // No authority that the platform knows signed the certificates, and a server with TLS refuses plain
    // connections. The files may also be named by the URL, without which no client has a certificate.
    refusal(&servers.url()).await;
    let whole = servers.certificates().in_url(&servers.url());
    works(&support::client(&whole).await).await;
    let without = whole.split('&').next().unwrap_or_default();
    let says = async || refusal(without).await.contains("this client has none");
    eventually("the missing certificate is named", LIMIT, says).await;
    let plain = servers.url().replace("rediss-", "redis-");
    shown(&leasehold::connect(&plain).await.expect_err("the servers speak TLS"));
}

/// C22: a moving slot, and a slot whose primary dies, are found by TLS too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_is_followed_by_tls() {
    let mut servers = RedisCluster::start_tls(SOON).await;
    let client = trusting(servers.url(), servers.certificates()).await;
    let name = cluster::name_at(&servers, 0);
    let before = turn(&client, &name).await;
    let moved = cluster::name_at(&servers, 1);
    turn(&client, &moved).await;
    servers.begin_move(&moved, 2);
    servers.move_keys(&moved, 2);
    servers.end_move(&moved, 2).await;
    turn(&client, &moved).await;
    servers.server(0).kill();
    servers.until_replaced(0, &name).await;
    let after = turn(&client, &name).await;
    assert!(after > before, "{after} after {before}");
}

/// The sentinels, the primary that they name, and its successor are all reached by TLS.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_is_found_again_by_tls() {
    let mut sentinels = RedisSentinels::start_tls(SOON).await;
    let client = trusting(sentinels.url(), sentinels.certificates()).await;
    works(&client).await;
    refusal(&sentinels.url()).await;
    works(&support::client(&sentinels.certificates().in_url(&sentinels.url())).await).await;
    let name = fresh_name();
    let guard = held(&client, &name).await;
    let token = guard.token();
    replicated(&sentinels.servers()[0], &name, 2);
    sentinels.server(0).kill();
    sentinels.until_replaced(0).await;
    // On a busy machine, connections by TLS take a while.
    eventually("it is held, at its new primary", LIMIT, async || {
        guard.extend(MINUTE).await.is_ok()
    })
    .await;
    released(guard).await;
    assert!(turn(&client, &name).await > token, "tokens grow");
}
