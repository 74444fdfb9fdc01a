//! The Postgres server of the shared tests.

use std::net::SocketAddr;
use std::sync::Arc;

use leasehold::DistributedLock;
use lock_testkit::faults::Harness;
use lock_testkit::{PostgresServer, eventually};
use tokio::sync::OnceCell;

use crate::support::{LIMIT, client, connected, turn};

/// Counts the sessions whose advisory locks show that they listen.
const LISTENERS: &str = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'";

/// Returns the server of all tests that leave it unchanged.
pub(crate) async fn shared() -> &'static PostgresServer {
    static SHARED: OnceCell<PostgresServer> = OnceCell::const_new();
    SHARED.get_or_init(PostgresServer::start).await
}

/// Returns the URL of a server, or of a network before it, at `address`.
pub(crate) fn url_at(address: SocketAddr) -> String {
    format!("postgres://postgres@{address}/postgres")
}

/// Harness of the faults: a server whose locks are rows of a table.
pub(crate) struct PostgresFaults;

impl Harness for PostgresFaults {
    type Server = PostgresServer;

    /// Eight for requests, and one to listen.
    const CONNECTIONS: usize = 9;

    async fn start() -> PostgresServer {
        PostgresServer::start().await
    }

    async fn shared() -> &'static PostgresServer {
        shared().await
    }

    async fn connect_at(address: SocketAddr) -> Arc<dyn DistributedLock> {
        connected(&url_at(address)).await
    }

    async fn pushes(server: &PostgresServer) -> usize {
        number(server, LISTENERS) as usize
    }

    /// Waits until no hold, no place in a queue and no session is left. Later withdrawals clear the marks of
    /// earlier ones.
    async fn until_nothing_is_left(server: &PostgresServer) {
        let left = "SELECT (SELECT count(*) FROM leasehold.locks_grants WHERE owner IS NOT NULL) \
            + (SELECT count(*) FROM leasehold.locks_queue)";
        assert_eq!(number(server, left), 0);
        eventually("the connections are closed", LIMIT, async || sessions(server) == 0).await;
        assert_eq!(number(server, LISTENERS), 0);
        until_old_marks_are_gone(server).await;
    }
}

async fn until_old_marks_are_gone(server: &PostgresServer) {
    server.psql("UPDATE leasehold.locks_withdrawn SET forget_at = now()");
    let old = "SELECT count(*) FROM leasehold.locks_withdrawn WHERE forget_at < clock_timestamp()";
    let client = client(&server.url()).await;
    eventually("the marks are gone", LIMIT, async || {
        // One of 64 releases sweeps.
        for _ in 0..64 {
            turn(&client, "x").await;
        }
        number(server, old) == 0
    })
    .await;
}

pub(crate) fn number(server: &PostgresServer, sql: &str) -> u64 {
    server.psql(sql).parse().expect("a number")
}

/// Counts the sessions of clients. Those of `psql` do not count: they end a little after it.
pub(crate) fn sessions(server: &PostgresServer) -> u64 {
    number(
        server,
        "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' \
         AND application_name IS DISTINCT FROM 'psql'",
    )
}
