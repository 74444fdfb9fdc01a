//! Errors of servers that cannot keep locks: rows of the table of `docs/operating.md`, one test for each row
//! without a test elsewhere.

use leasehold::{LockError, LockRequest, Wait};
use lock_testkit::{PgBouncer, PostgresServer};

use crate::security::let_in;
use crate::support::{client, fresh_name, refusal, shown, turn, works};

/// C30: servers of other products that speak the protocol of Postgres, and servers that are too old.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c30_a_server_that_only_speaks_like_postgres_is_named() {
    let server = PostgresServer::start_with(&["allow_system_table_mods=on"]).await;
    for (version, product) in [
        ("CockroachDB CCL v23.1.11 (x86_64-pc-linux-gnu)", "CockroachDB"),
        ("PostgreSQL 11.2-YB-2.19.3.0-b0 on x86_64-pc-linux-gnu", "YugabyteDB"),
        ("PostgreSQL 8.0.2 on i686-pc-linux-gnu, Redshift 1.0.54321", "Redshift"),
        ("PostgreSQL 12.22 on x86_64-pc-linux-gnu", "PostgreSQL 12.22 on x86_64-pc-linux-gnu"),
    ] {
        server.psql(&format!(
            "CREATE OR REPLACE FUNCTION pg_catalog.version() RETURNS text \
             LANGUAGE sql STABLE AS $$ SELECT '{version}' $$"
        ));
        let text = refusal(&server.url()).await;
        assert!(text.contains(&format!("the server is {product}, ")), "{text}");
    }
    assert_eq!(server.psql("SELECT count(*) FROM pg_namespace WHERE nspname = 'leasehold'"), "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c15_a_server_that_is_full_says_so() {
    let server = PostgresServer::start().await;
    let owner = client(&server.url()).await;
    server.psql("CREATE ROLE app LOGIN CONNECTION LIMIT 1");
    let_in(&server, "app");
    let full = leasehold::connect(&server.url_as("app", "postgres")).await.expect_err("full");
    let LockError::Backend { source, .. } = &full else { panic!("{full:?}") };
    assert!(source.is_transient(), "{full}");
    assert!(shown(&full).contains("no room: connections, memory or disk"), "{full}");
    // The error of a server whose disk is full.
    server.psql(
        "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$; \
         CREATE TRIGGER full_disk BEFORE INSERT ON leasehold.locks_grants \
         FOR EACH ROW EXECUTE FUNCTION full_disk()",
    );
    let refused = owner.acquire(LockRequest::new(fresh_name()).wait(Wait::Never)).await;
    let text = shown(&refused.expect_err("its disk is full"));
    assert!(text.contains("no room: connections, memory or disk"), "{text}");
}

/// C30: this pooler gives each transaction another session. The schema needs a transaction of several statements,
/// and is made over a direct connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c30_a_pooler_by_statement_takes_locks_once_the_schema_is_there() {
    let server = PostgresServer::start().await;
    let pooler = PgBouncer::start_with(&server, &["pool_mode = statement"]).await;
    let text = refusal(&pooler.url()).await;
    assert!(text.contains("over a direct connection"), "{text}");
    turn(&client(&server.url()).await, &fresh_name()).await;
    works(&client(&pooler.url()).await).await;
}
