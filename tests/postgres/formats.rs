//! Clients and schemas of different formats.

use leasehold::LockError;
use leasehold::admin::Health;
use leasehold::postgres::{PostgresBackend, PostgresOptions};
use lock_testkit::PostgresServer;

use crate::rights::script;
use crate::support::{MINUTE, client, finding, fresh_name, held, refusal, released, turn, works};

/// Marks a schema as one of another format.
fn mark(server: &PostgresServer, format: &str) {
    server.psql(&format!(
        "CREATE OR REPLACE FUNCTION leasehold.locks_format() RETURNS bigint \
         LANGUAGE sql IMMUTABLE AS 'SELECT {format}'"
    ));
}

/// P2: to a client that does not know a format, none of its locks is free.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_a_schema_of_a_later_format_is_refused_and_left_alone() {
    let server = PostgresServer::start().await;
    let lock = PostgresBackend::connect(&server.url()).await.expect("a connection");
    for (later, named) in [("2 + 0", "format unknown"), ("3", "format 3")] {
        mark(&server, later);
        let text = refusal(&server.url()).await;
        assert!(text.contains(named) && text.contains("knows format 1"), "{text}");
        assert!(text.contains("newer version of leasehold"), "{text}");
    }
    // The owner's script does not bring it back to our format either.
    let said = server.try_psql(&script(&server)).expect_err("a later format");
    assert!(said.contains("format 3") && said.contains("format 1"), "{said}");
    let Err(LockError::Backend { source, .. }) = lock.migrate().await else { panic!("migrated") };
    assert!(source.to_string().contains("format 3"), "{source}");
    assert_eq!(
        server.psql("SELECT prosrc FROM pg_proc WHERE proname = 'locks_format'"),
        "SELECT 3"
    );
}

/// P2: the next format keeps the routines of the former one as they are. So clients at work go on, and others still
/// connect. Without one of the routines the schema is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_the_next_format_serves_clients_of_the_former_one() {
    let server = PostgresServer::start().await;
    let running = client(&server.url()).await;
    let guard = held(&running, &fresh_name()).await;
    server.psql("ALTER TABLE leasehold.locks_grants ADD more bigint NOT NULL DEFAULT 0");
    mark(&server, "2");
    guard.extend(MINUTE).await.expect("still held");
    works(&client(&server.url()).await).await;
    released(guard).await;
    assert_eq!(
        server.psql("SELECT prosrc FROM pg_proc WHERE proname = 'locks_format'"),
        "SELECT 2"
    );
    server.psql("DROP FUNCTION leasehold.locks_v1_forget");
    let text = refusal(&server.url()).await;
    assert!(text.contains("format 2") && text.contains("newer version of leasehold"), "{text}");
}

/// A user with the rights upgrades a schema of an earlier format; for other users the error names the remedy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_of_an_earlier_format_is_brought_to_ours_or_the_remedy_named() {
    let server = PostgresServer::start().await;
    drop(client(&server.url()).await);
    server.psql("CREATE ROLE app LOGIN");
    crate::security::let_in(&server, "app");
    mark(&server, "0");
    let text = refusal(&server.url_as("app", "postgres")).await;
    assert!(text.contains("older format") && text.contains("leasehold schema postgres"), "{text}");
    turn(&client(&server.url()).await, &fresh_name()).await;
    assert_eq!(server.psql("SELECT leasehold.locks_format()"), "1");
    turn(&client(&server.url_as("app", "postgres")).await, &fresh_name()).await;
}

/// P2, C31: a changed or missing routine is named with the remedy, and no other request is sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_a_routine_that_is_missing_or_was_changed_is_named() {
    let server = PostgresServer::start().await;
    let client = client(&server.url()).await;
    for (change, routine) in [
        ("DROP FUNCTION leasehold.locks_v1_forget_unused", "locks_v1_forget_unused"),
        ("ALTER FUNCTION leasehold.locks_v1_extend SET lock_timeout = '1min'", "locks_v1_extend"),
        (
            "CREATE OR REPLACE FUNCTION leasehold.locks_v1_durably() RETURNS void \
             LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS 'BEGIN END'",
            "locks_v1_durably",
        ),
    ] {
        server.psql(change);
        let seen = finding(&client, "schema").await;
        assert_eq!(seen.health, Health::Risk, "{change}: {seen}");
        for text in [seen.to_string(), refusal(&server.url()).await] {
            let is_named = text.contains(&format!("makes it: {routine}"));
            assert!(is_named && text.contains("leasehold schema postgres"), "{text}");
        }
        server.psql(&script(&server));
        works(&crate::support::client(&server.url()).await).await;
    }
}

/// P2: a foreign table with our table's name is left alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c49_a_table_that_is_not_ours_is_refused() {
    let server = PostgresServer::start().await;
    server.psql("CREATE TABLE public.locks (name text, door int)");
    let text = refusal(&format!("{}?lock_schema=public", server.url())).await;
    assert!(text.contains("not one of leasehold") && text.contains("lock_table"), "{text}");
    assert_eq!(server.psql("SELECT count(*) FROM pg_proc WHERE proname ~ '^locks_'"), "0");
}

/// P2: rows of an unknown kind cannot be written, so no such row can look like a free lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_a_row_of_an_unknown_kind_cannot_be_written() {
    let server = PostgresServer::start().await;
    turn(&client(&server.url()).await, &fresh_name()).await;
    for row in [
        "UPDATE leasehold.locks_grants SET permits = -1, owner = gen_random_uuid()",
        "UPDATE leasehold.locks_grants SET permits = 70000, owner = gen_random_uuid()",
        "INSERT INTO leasehold.locks_queue (owner, name, ttl_ms, label, seen_at, permits) \
         VALUES (gen_random_uuid(), 'a', 1, '', now(), -1)",
    ] {
        let refused = server.try_psql(row);
        assert!(refused.is_err_and(|text| text.contains("check constraint")), "{row}");
    }
    let options = PostgresOptions::new(server.url());
    server.psql(&options.schema_sql().expect("good names"));
}
