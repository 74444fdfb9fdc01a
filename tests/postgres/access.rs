//! Ways in: password, schema, table, mode; and ways to be kept out.

use std::time::Instant;

use leasehold::postgres::{PostgresLock, PostgresOptions};
use leasehold::{LockClient, LockError, LockRequest, Outcome, Wait};
use test_support::PostgresServer;

use crate::{REQUEST_TIMEOUT, SLACK, client, fresh_name, patient, shared};

const SECRET: &str = "pa55word-of-the-test";

async fn works(client: &LockClient) {
    let name = fresh_name();
    let guard = client.acquire(patient(&name)).await.expect("a free lock");
    let waiting = client.acquire(patient(&name));
    let (released, next) = tokio::join!(guard.release(), waiting);
    released.expect("an answer");
    next.expect("its turn comes").release().await.expect("an answer");
}

/// An error and its causes, which show no secret.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = format!("{error:?} {error}");
    let mut source = error.source();
    while let Some(cause) = source {
        text += &format!(": {cause}");
        source = cause.source();
    }
    assert!(!text.contains(SECRET), "a secret is shown: {text}");
    text
}

async fn refusal(url: &str) -> String {
    let asked = Instant::now();
    let error = leasehold::connect(url).await.expect_err("we must be kept out");
    assert!(asked.elapsed() < REQUEST_TIMEOUT * 3 + SLACK, "refused after {:?}", asked.elapsed());
    chain(&error)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_password_and_with_the_rights_that_the_docs_name() {
    let server = PostgresServer::start().await;
    server.require_passwords();
    works(&client(&server.url()).await).await;
    server.psql(&format!(
        "CREATE ROLE able LOGIN PASSWORD '{SECRET}'; CREATE ROLE unable LOGIN PASSWORD '{SECRET}'; \
         GRANT USAGE ON SCHEMA leasehold TO able; \
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA leasehold TO able"
    ));
    works(&client(&server.url_as(&format!("able:{SECRET}"), "postgres")).await).await;
    for wrong in ["able", &format!("able:not-{SECRET}")] {
        let text = refusal(&server.url_as(wrong, "postgres")).await;
        assert!(text.contains("check user, password"), "{text}");
    }
    let text = refusal(&server.url_as(&format!("able:{SECRET}"), "nowhere")).await;
    assert!(text.contains("refuses to let us in"), "{text}");
    let text = refusal(&server.url_as(&format!("unable:{SECRET}"), "postgres")).await;
    assert!(text.contains("USAGE on the schema"), "{text}");

    server.psql("REVOKE UPDATE ON leasehold.locks FROM able");
    let client = client(&server.url_as(&format!("able:{SECRET}"), "postgres")).await;
    let refused = client.acquire(LockRequest::new(fresh_name()).wait(Wait::No)).await;
    let Err(LockError::Backend { source, .. }) = refused else { panic!("{refused:?}") };
    assert!(!source.is_transient() && source.outcome() == Outcome::NotApplied, "{source:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_schema_is_made_or_the_remedy_named() {
    let server = PostgresServer::start().await;
    server.psql("CREATE ROLE guest LOGIN");
    let url = server.url_as("guest", "postgres");
    let text = refusal(&url).await;
    assert!(text.contains("leasehold schema postgres"), "{text}");
    // An operator runs the script, twice, and lets the guest in.
    let script = PostgresOptions::new(&url).schema_sql().expect("good names");
    for _ in 0..2 {
        server.psql(&script);
    }
    server.psql(
        "GRANT USAGE ON SCHEMA leasehold TO guest; \
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA leasehold TO guest",
    );
    works(&client(&url).await).await;
    let advisory = leasehold::connect(&format!("{url}?lock_mode=advisory")).await;
    works(&advisory.expect("its tables are made as well")).await;
}

/// Many that find an empty database at once make its schema once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_database_may_be_found_by_many_at_once() {
    let server = PostgresServer::start().await;
    let clients = (0..8).map(|_| async { works(&client(&server.url()).await).await });
    futures_util::future::join_all(clients).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schemas_tables_and_modes_keep_name_spaces_apart() {
    let url = shared().await.url();
    let mut guards = Vec::new();
    for parameters in [
        "",
        "?lock_table=two",
        "?lock_schema=three",
        "?lock_mode=advisory",
        "?lock_mode=advisory&lock_table=two",
    ] {
        let client = leasehold::connect(&format!("{url}{parameters}")).await.expect(parameters);
        let guard = client.acquire(LockRequest::new("apart").wait(Wait::No)).await;
        guards.push((client, guard.expect("locks of their own")));
    }
    for (client, guard) in guards {
        assert_eq!(client.list("apart", 10).await.expect("an answer").len(), 1);
        guard.release().await.expect("an answer");
    }
    for bad in ["?lock_table=A", "?lock_schema=%22", "?lock_mode=both", "?lock_x=1"] {
        let refused = leasehold::connect(&format!("{url}{bad}")).await;
        assert!(matches!(refused, Err(LockError::Config { .. })), "{bad}: {refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_of_the_callers_says_where() {
    let pool = sqlx::PgPool::connect(&shared().await.url()).await.expect("a pool");
    let lock: PostgresLock = PostgresOptions::like_pool(&pool).connect().await.expect("a lock");
    works(&LockClient::new(lock)).await;
    pool.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_there_and_bad_urls() {
    let text = refusal(&format!("postgres://u:{SECRET}@127.0.0.1:1/d")).await;
    assert!(text.contains("cannot be reached"), "{text}");
    for bad in [format!("postgres://u:{SECRET}@host:port/"), format!("postgres://{SECRET}@[::/")] {
        refusal(&bad).await;
    }
}

/// TLS that is asked for and cannot be had is no reason to do without.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_server_is_refused_where_tls_is_required() {
    refusal(&format!("{}?sslmode=require", shared().await.url())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_takes_no_locks() {
    let server = PostgresServer::start().await;
    works(&client(&server.url()).await).await;
    let standby = server.standby().await;
    let client = client(&standby.url()).await;
    let refused = client.acquire(LockRequest::new(fresh_name()).wait(Wait::No)).await;
    let Err(LockError::Backend { source, .. }) = refused else { panic!("{refused:?}") };
    assert!(source.is_transient() && source.outcome() == Outcome::NotApplied, "{source:?}");
    assert!(source.to_string().contains("standby"), "{source}");
}
