//! Poolers that other applications share, and whose sessions do not belong to us.

use leasehold::LockClient;
use leasehold::core::Wakeup;
use lock_testkit::{PgBouncer, PostgresServer};
use sqlx::{Connection, Executor, PgConnection, Row};

use crate::support::{client, fresh_name, held, patient, queued, released, served, turn};

/// A pooler whose two sessions take turns: two connections that also take turns see one session each.
const ROUND_ROBIN: [&str; 2] = ["server_round_robin = 1", "default_pool_size = 2"];

/// Another application that uses the pool.
struct Application(PgConnection);

impl Application {
    async fn start(pooler: &PgBouncer) -> Self {
        Self(PgConnection::connect(&pooler.url()).await.expect("a connection"))
    }

    /// Returns the new traces in its sessions: settings, prepared statements, channels, locks.
    async fn leaks(&mut self) -> Vec<String> {
        let mut leaks = Vec::new();
        for _ in 0..4 {
            let rows = self.0.fetch_all(sqlx::raw_sql(LEAKS)).await.expect("an answer");
            leaks.extend(rows.iter().map(|row| row.get::<String, _>(0)));
        }
        leaks.sort();
        leaks.dedup();
        leaks
    }
}

/// The pooler keeps four settings for each client, and an isolation level belongs to its transaction.
const LEAKS: &str = "SELECT name || ' = ' || setting FROM pg_settings WHERE source = 'session' \
    AND name NOT IN ('client_encoding', 'TimeZone', 'DateStyle', 'application_name', \
        'transaction_isolation') \
    UNION ALL SELECT 'prepared: ' || statement FROM pg_prepared_statements \
    UNION ALL SELECT 'listens: ' || pg_listening_channels() \
    UNION ALL SELECT 'locks: ' || objid FROM pg_locks \
        WHERE locktype = 'advisory' AND pid = pg_backend_pid()";

async fn use_all(client: &LockClient) {
    client.admin().doctor().await.expect("an answer");
    let name = fresh_name();
    let guard = held(client, &name).await;
    let waiting = queued(client, client, patient(&name), &name).await;
    released(guard).await;
    released(served(waiting).await).await;
    turn(client, &name).await;
}

/// If `connect` does not see a pooler, settings and statements reach sessions of other applications.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c30_the_sessions_of_a_round_robin_pool_stay_as_they_are() {
    let server = PostgresServer::start().await;
    drop(client(&server.url()).await);
    for settings in
        [&ROUND_ROBIN[..], &ROUND_ROBIN[1..], &["default_pool_size = 3", ROUND_ROBIN[0]]]
    {
        let pooler = PgBouncer::start_with(&server, settings).await;
        let mut application = Application::start(&pooler).await;
        // The pool has reached its size.
        let mut other = Application::start(&pooler).await;
        let mut open = other.0.begin().await.expect("begun");
        open.execute("SELECT 1").await.expect("a session of its own");
        application.0.execute("SELECT 1").await.expect("the other session");
        open.rollback().await.expect("rolled back");
        for _ in 0..3 {
            let client = client(&pooler.url()).await;
            let wakeup = client.capabilities().wakeup;
            assert!(
                matches!(wakeup, Wakeup::Poll(_)),
                "{settings:?}: taken for a direct connection"
            );
            use_all(&client).await;
            assert_eq!(application.leaks().await, [] as [String; 0], "{settings:?}");
        }
    }
}
