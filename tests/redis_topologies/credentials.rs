//! Secrets that change, at all servers of a cluster, and at sentinels and the servers that they name.

use leasehold::LockClient;
use leasehold::redis::RedisOptions;
use leasehold::redis::redis::{Client, RedisConnectionInfo};
use lock_testkit::{RedisCluster, RedisSentinels};

use crate::NEVER;
use crate::support::{
    APP, Vault, expire_on_redis, holds_outlive_expiries, refusals_are_told_apart,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c08_holds_in_a_cluster_outlive_secrets_that_expire() {
    let servers = RedisCluster::start(NEVER).await;
    let expire = |secret: &str| {
        servers.servers().iter().for_each(|server| expire_on_redis(server, secret));
    };
    expire("first");
    let connect = |vault| {
        let options = RedisOptions::new(servers.url()).credentials(vault);
        async { Ok(LockClient::new(options.connect().await?)) }
    };
    refusals_are_told_apart(connect).await;
    let (vault, any) = (Vault::of("first"), servers.servers()[1].addr().to_string());
    let any = Client::open(format!("redis://{any}")).expect("a good URL");
    let options = RedisOptions::like_cluster(vec![any.get_connection_info().clone()]);
    let lock = options.credentials(vault.clone()).connect().await.expect("a connection");
    let client = LockClient::new(lock);
    holds_outlive_expiries(&client, &vault, async |secret: &str| expire(secret)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c08_holds_at_a_primary_of_sentinels_outlive_secrets_that_expire() {
    let sentinels = RedisSentinels::start(NEVER).await;
    let expire = |secret: &str| {
        sentinels.servers().iter().for_each(|server| expire_on_redis(server, secret));
        let secret = format!(">{secret}");
        sentinels.ask_sentinels(&["ACL", "SETUSER", APP, "reset", "on", &secret, "&*", "+@all"]);
        sentinels.ask_sentinels(&["CLIENT", "KILL", "USER", APP]);
    };
    expire("first");
    let connect = |vault| {
        let options = RedisOptions::new(sentinels.url()).credentials(vault);
        async { Ok(LockClient::new(options.connect().await?)) }
    };
    refusals_are_told_apart(connect).await;
    let vault = Vault::of("first");
    let url = sentinels.url();
    let (hosts, name) =
        url.trim_start_matches("redis-sentinel://").split_once('/').expect("a name");
    let info =
        |host| Client::open(format!("redis://{host}")).map(|it| it.get_connection_info().clone());
    let hosts: Result<Vec<_>, _> = hosts.split(',').map(info).collect();
    let hosts = hosts.expect("good URLs");
    let options = RedisOptions::like_sentinels(hosts, name, RedisConnectionInfo::default());
    let lock = options.credentials(vault.clone()).connect().await.expect("a connection");
    let client = LockClient::new(lock);
    holds_outlive_expiries(&client, &vault, async |secret: &str| expire(secret)).await;
}
