//! C31: what the doctor says of real servers.

use leasehold::Health;
use lock_testkit::{PgBouncer, PostgresServer};

use crate::support::client;

const SAFE: [&str; 2] = ["fsync=on", "full_page_writes=on"];

/// What is not well.
async fn ills(url: &str) -> Vec<(&'static str, Health)> {
    let findings = client(url).await.doctor().await.expect("an answer");
    let ill = findings.into_iter().filter(|finding| finding.health != Health::Good);
    ill.map(|finding| (finding.check, finding.health)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c31_what_endangers_locks_is_named() {
    let server = PostgresServer::start_with(&SAFE).await;
    assert_eq!(ills(&server.url()).await, []);
    let pooler = PgBouncer::start(&server).await;
    assert_eq!(ills(&pooler.url()).await, [("pooler", Health::Risk)]);

    server.psql("ALTER SYSTEM SET synchronous_commit = off");
    server.psql("SELECT pg_reload_conf()");
    assert_eq!(ills(&server.url()).await, [("durability", Health::Risk)]);

    let client = client(&server.url()).await;
    server.psql("DROP FUNCTION leasehold.locks_v2_withdraw");
    let findings = client.doctor().await.expect("an answer");
    let schema = findings.iter().find(|finding| finding.check == "schema").expect("looked at");
    assert!(schema.to_string().contains("leasehold schema postgres"), "{schema}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c31_a_standby_is_named() {
    let server = PostgresServer::start_with(&SAFE).await;
    drop(client(&server.url()).await);
    let standby = server.standby().await;
    assert_eq!(ills(&standby.url()).await, [("role", Health::Risk), ("schema", Health::Unknown)]);
}
