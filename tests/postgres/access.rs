//! Ways to connect, by password, schema, table and mode; and refusals.

use leasehold::postgres::{PostgresBackend, PostgresOptions};
use leasehold::{LockClient, LockError, LockRequest, Outcome, Wait};
use lock_testkit::{PostgresServer, eventually};
use sqlx::postgres::PgListener;

use crate::security::let_in;
use crate::server::shared;
use crate::support::{
    APP, LIMIT, SECRET, Vault, client, fresh_name, held, holds_outlive_expiries, patient, queued,
    refusal, refusals_are_told_apart, released, served, works,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_password_and_with_the_rights_that_the_docs_name() {
    let server = PostgresServer::start().await;
    server.require_passwords();
    works(&client(&server.url()).await).await;
    server.psql(&format!(
        "CREATE ROLE able LOGIN PASSWORD '{SECRET}'; CREATE ROLE unable LOGIN PASSWORD '{SECRET}'"
    ));
    let_in(&server, "able");
    works(&client(&server.url_as(&format!("able:{SECRET}"), "postgres")).await).await;
    for wrong in ["able", &format!("able:not-{SECRET}")] {
        let text = refusal(&server.url_as(wrong, "postgres")).await;
        assert!(text.contains("check user, password"), "{text}");
    }
    let text = refusal(&server.url_as(&format!("able:{SECRET}"), "nowhere")).await;
    assert!(text.contains("refuses the connection"), "{text}");
    let text = refusal(&server.url_as(&format!("unable:{SECRET}"), "postgres")).await;
    assert!(text.contains("GRANT USAGE ON SCHEMA"), "{text}");

    server.psql("REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA leasehold FROM able");
    let client = client(&server.url_as(&format!("able:{SECRET}"), "postgres")).await;
    let refused = client.acquire(LockRequest::new(fresh_name()).wait(Wait::Never)).await;
    let Err(LockError::Backend { source, .. }) = refused else { panic!("{refused:?}") };
    assert!(!source.is_transient() && source.outcome() == Outcome::NotApplied, "{source:?}");
}

/// C8: both the connections for requests and the session that listens are opened with the present secret.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c08_holds_outlive_secrets_that_expire() {
    let server = PostgresServer::start().await;
    works(&client(&server.url()).await).await;
    server.require_passwords();
    let expire = |secret: &str| {
        server.psql(&format!(
            "ALTER ROLE {APP} PASSWORD '{secret}'; \
             SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{APP}'"
        ));
    };
    server.psql(&format!("CREATE ROLE {APP} LOGIN"));
    let_in(&server, APP);
    expire("first");
    let connect = |vault| {
        let options = PostgresOptions::new(server.url_as("nobody", "postgres")).credentials(vault);
        async { Ok(LockClient::new(options.connect().await?)) }
    };
    refusals_are_told_apart(connect).await;
    let vault = Vault::of("first");
    let client = connect(vault.clone()).await.expect("a connection");
    holds_outlive_expiries(&client, &vault, async |secret: &str| expire(secret)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_schema_is_made_or_the_remedy_named() {
    let server = PostgresServer::start().await;
    server.psql("CREATE ROLE guest LOGIN");
    let url = server.url_as("guest", "postgres");
    let text = refusal(&url).await;
    assert!(text.contains("leasehold schema postgres"), "{text}");
    // An operator runs the script twice, and grants the rights to the guest.
    let script = PostgresOptions::new(&url).schema_sql().expect("good names");
    for _ in 0..2 {
        server.psql(&script);
    }
    let_in(&server, "guest");
    works(&client(&url).await).await;
}

/// A database with another encoding accepts the schema, and the names that the encoding has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_in_latin1_takes_the_schema() {
    let server = PostgresServer::start_with(&["listen_addresses=127.0.0.1,::1"]).await;
    server.psql("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0");
    let url = server.url_as("postgres", "latin");
    for url in [url.clone(), url.replace("127.0.0.1", "[::1]")] {
        works(&client(&url).await).await;
    }
}

/// Many clients that find an empty database at once make its schema once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_database_may_be_found_by_many_at_once() {
    let server = PostgresServer::start().await;
    let clients = (0..8).map(|_| async { works(&client(&server.url()).await).await });
    futures_util::future::join_all(clients).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schemas_and_tables_keep_name_spaces_apart() {
    let url = shared().await.url();
    let mut guards = Vec::new();
    for parameters in ["", "?lock_table=two", "?lock_schema=three"] {
        let client = leasehold::connect(&format!("{url}{parameters}")).await.expect(parameters);
        let guard = client.acquire(LockRequest::new("apart").wait(Wait::Never)).await;
        guards.push((client, guard.expect("locks of their own")));
    }
    for (client, guard) in guards {
        assert_eq!(client.admin().list("apart", 10).await.expect("an answer").len(), 1);
        guard.release().await.expect("an answer");
    }
    for bad in [
        "?lock_table=A", "?lock_schema=%22", "?lock_mode=advisory", "?lock_x=1",
        // The table's name would be that of a companion of another set of locks.
        "?lock_table=locks_queue",
    ] {
        let refused = leasehold::connect(&format!("{url}{bad}")).await;
        assert!(matches!(refused, Err(LockError::Config { .. })), "{bad}: {refused:?}");
    }
}

/// C49: the driver only warns of unknown parameters.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c49_parameters_that_the_driver_passes_over_are_refused() {
    let url = shared().await.url();
    let good = "?sslmode=disable&application_name=shop&options[lock_timeout]=5s";
    works(&client(&format!("{url}{good}&prefix=shop:")).await).await;
    for (bad, named) in [
        ("?sslmod=secret", "`sslmod`"),
        ("?lock_tabel=secret", "`lock_tabel`"),
        ("?options[lock_timeout=secret", "`options[lock_timeout`"),
        ("?connect_timeout=5&prefix=a:", "`connect_timeout`"),
        ("?lock_mode=secret", "`lock_mode`"),
        ("#x", "`#`"),
    ] {
        let text = refusal(&format!("{url}{bad}")).await;
        assert!(text.contains(named) && !text.contains("secret"), "{bad}: {text}");
    }
}

/// C49: parameters that providers put into URLs are accepted if they change nothing, and otherwise refused with
/// the reason.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c49_parameters_of_providers_are_taken_or_refused_with_the_reason() {
    let url = shared().await.url();
    let good = "?channel_binding=prefer&target_session_attrs=read-write&application_name=";
    works(&client(&format!("{url}{good}")).await).await;
    for (bad, reason) in [
        ("?channel_binding=require", "sslmode=verify-full"),
        ("?target_session_attrs=standby", "locks need a primary"),
        ("?connect_timeout=5", "within 10 s"),
        ("?host=127.0.0.1,127.0.0.2", "several hosts: name one"),
    ] {
        let text = refusal(&format!("{url}{bad}")).await;
        assert!(text.contains(reason), "{bad}: {text}");
    }
    for hosts in ["a,b", "a:5432,b:5432"] {
        let text = refusal(&format!("postgres://app:{SECRET}@{hosts}/app")).await;
        assert!(text.contains("several hosts: name one"), "{text}");
    }
}

/// Sessions have a name of their own, unless the application names them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_have_a_name() {
    let server = PostgresServer::start().await;
    for (parameters, name) in
        [("", "leasehold"), ("?application_name=", "leasehold"), ("?application_name=shop", "shop")]
    {
        let client = client(&format!("{}{parameters}", server.url())).await;
        works(&client).await;
        let named =
            format!("SELECT count(*) > 0 FROM pg_stat_activity WHERE application_name = '{name}'");
        assert_eq!(server.psql(&named), "t", "{parameters}");
    }
}

/// Uninstalling as documented leaves nothing behind, and a later client makes everything again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_uninstalled_leaves_nothing() {
    let server = PostgresServer::start().await;
    let url = format!("{}?lock_schema=public", server.url());
    works(&client(&url).await).await;
    let guide = include_str!("../../docs/backends/postgres.md");
    let (_, block) = guide.split_once("## Uninstalling").expect("the section");
    let (_, block) = block.split_once("in a schema with other things").expect("the part");
    let sql = block.split("```").nth(1).expect("a block").trim_start_matches("sql");
    server.psql(sql);
    let left = "SELECT (SELECT count(*) FROM pg_class WHERE relname ~ '^locks') \
        + (SELECT count(*) FROM pg_proc WHERE proname ~ '^locks_')";
    assert_eq!(server.psql(left), "0");
    works(&client(&url).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_of_the_callers_says_where() {
    let pool = sqlx::PgPool::connect(&shared().await.url()).await.expect("a pool");
    let lock: PostgresBackend = PostgresOptions::like_pool(&pool).connect().await.expect("a lock");
    works(&LockClient::new(lock)).await;
    let settings = (*pool.connect_options()).clone();
    pool.close().await;
    let lock = PostgresOptions::like(settings).connect().await.expect("a lock");
    works(&LockClient::new(lock)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_there_and_bad_urls() {
    let text = refusal(&format!("postgres://u:{SECRET}@127.0.0.1:1/d")).await;
    assert!(text.contains("cannot be reached"), "{text}");
    for bad in [format!("postgres://u:{SECRET}@host:port/"), format!("postgres://{SECRET}@[::/")] {
        refusal(&bad).await;
    }
}

/// If TLS is required, a connection without it is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_server_is_refused_where_tls_is_required() {
    refusal(&format!("{}?sslmode=require", shared().await.url())).await;
}

/// The driver reads the files again for each connection.
#[cfg(feature = "postgres-rustls")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c08_holds_outlast_a_new_certificate() {
    let (server, certificates) = (PostgresServer::start().await, lock_testkit::Certificates::new());
    server.psql("CREATE USER shop SUPERUSER");
    certificates.demanded_by(&server);
    let url = certificates.in_url(&server.url_as("shop", "postgres"));
    let url = url.replace("?ca=", "?sslmode=verify-full&sslrootcert=");
    let url = url.replace("&cert=", "&sslcert=").replace("&key=", "&sslkey=");
    let reads = async || certificates.demanded_by(&server);
    crate::support::c08_holds_outlast_a_new_certificate(&url, &certificates, reads).await;
    refusal(&server.url_as("shop", "postgres")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_takes_no_locks() {
    let server = PostgresServer::start().await;
    works(&client(&server.url()).await).await;
    let standby = server.standby().await;
    let client = client(&standby.url()).await;
    let refused = client.acquire(LockRequest::new(fresh_name()).wait(Wait::Never)).await;
    let Err(LockError::Backend { source, .. }) = refused else { panic!("{refused:?}") };
    // The end of the wait may cut the last try short; then its outcome is unknown.
    assert!(source.is_transient(), "{source:?}");
    assert!(source.to_string().contains("standby"), "{source}");
}

/// C3, C32: a notification of a grant contains a whole owner id, so a role without rights must not receive it.
/// The channel cannot be derived from the facts that such a role sees of the listening session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c03_the_lock_of_a_listener_does_not_tell_its_channel() {
    let server = PostgresServer::start().await;
    server.psql("CREATE ROLE stranger LOGIN");
    let (holder, waiter) = (client(&server.url()).await, client(&server.url()).await);
    let name = fresh_name();
    let guard = held(&holder, &name).await;
    let waiting = queued(&waiter, &holder, patient(&name), &name).await;
    let locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'";
    eventually("its session holds a lock", LIMIT, async || server.psql(locks) == "1").await;
    let url = server.url_as("stranger", "postgres");
    let mut stranger = PgListener::connect(&url).await.expect("let in");
    let seen = "SELECT 'leasehold_' || to_hex(classid::bigint << 32 | objid::bigint) \
         FROM pg_locks WHERE locktype = 'advisory'";
    let channel: String = sqlx::query_scalar(seen).fetch_one(&mut stranger).await.expect("a lock");
    stranger.listen_all([&*channel, "end"]).await.expect("anyone may");
    released(guard).await;
    released(served(waiting).await).await;
    server.psql("NOTIFY \"end\"");
    let heard = stranger.recv().await.expect("a message");
    assert_eq!(heard.channel(), "end");
}
