//! Access to a set of servers by URL, and the doctor's findings on it.

use leasehold::LockClient;
use leasehold::admin::{Finding, Health};
use leasehold::redis::RedisOptions;
use lock_testkit::RedisServer;

use crate::set::Set;
use crate::support::{
    Vault, expire_on_redis, fresh_name, held, holds_outlive_expiries, refusals_are_told_apart,
    released,
};

#[cfg(feature = "redis-rustls")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_tls() {
    use crate::support::{client, refusal, works};

    let certificates = lock_testkit::Certificates::new();
    certificates.sign_client(lock_testkit::Signed::Well);
    let start = |()| lock_testkit::TlsRedis::start_demanding(certificates.clone());
    let servers = futures_util::future::join_all([(); 3].map(start)).await;
    let addresses = servers.iter().map(|server| format!("localhost:{}", server.port()));
    let url = format!("rediss-quorum://{}", addresses.collect::<Vec<_>>().join(","));
    works(&client(&certificates.in_url(&url)).await).await;
    // Servers whose certificates no known authority signed, and a client without TLS.
    let unknown = refusal(&url).await;
    assert!(unknown.contains("certificate"), "{unknown}");
    refusal(&url.replace("rediss-quorum:", "redis-quorum:")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c08_holds_outlive_secrets_that_expire() {
    let set = Set::of(3).await;
    let expire =
        |secret: &str| set.servers.iter().for_each(|server| expire_on_redis(server, secret));
    expire("first");
    let connect = |vault| {
        let options = RedisOptions::new(set.url()).credentials(vault);
        async { Ok(LockClient::new(options.connect_quorum().await?)) }
    };
    refusals_are_told_apart(connect).await;
    let vault = Vault::of("first");
    let client = connect(vault.clone()).await.expect("a connection");
    holds_outlive_expiries(&client, &vault, async |secret: &str| expire(secret)).await;
}

/// C31: the doctor reports the number of voting servers, and examines each.
async fn the_doctor_says_who_votes(mut set: Set) {
    let (client, all) = (set.client().await, set.servers.len());
    let majority = set.minority() + 1;
    let quorum = |findings: &[Finding]| findings.iter().find(|it| it.check == "quorum").cloned();
    let findings = client.admin().doctor().await.expect("an answer");
    let voting = quorum(&findings).expect("it counts");
    assert_eq!(voting.health, Health::Good, "{voting}");
    assert_eq!(voting.seen, format!("{all} of {all} servers vote; {majority} are needed"));
    let versions = findings.iter().filter(|finding| finding.check == "version").count();
    assert_eq!(versions, all, "{findings:?}");
    set.servers[majority..].iter_mut().for_each(RedisServer::kill);
    let findings = client.admin().doctor().await.expect("an answer");
    let voting = quorum(&findings).expect("it counts");
    assert_eq!(voting.health, Health::Risk, "{voting}");
    assert!(voting.seen.starts_with(&format!("{majority} of {all} servers vote")), "{voting}");
    let gone = findings.iter().filter(|finding| finding.check == "server").count();
    assert_eq!(gone, set.minority(), "{findings:?}");
}

on_three_and_five!(c31_the_doctor_says_who_votes: the_doctor_says_who_votes);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c31_a_companion_of_somebody_else_is_named() {
    let (set, name) = (Set::of(3).await, fresh_name());
    let client = set.client().await;
    released(held(&client, &name).await).await;
    assert_eq!(client.admin().examine(&*name).await.expect("an answer").len(), 1);
    let counter = format!("{{{name}}}:fence");
    set.servers[1].cli(&["SET", &counter, "abc"]);
    let found = client.admin().examine(&*name).await.expect("an answer");
    let named = found.iter().find(|finding| finding.check == "companions").expect("it looks");
    let address = set.servers[1].addr().to_string();
    assert!(named.seen.contains(&counter) && named.seen.contains(&address), "{named}");
}
