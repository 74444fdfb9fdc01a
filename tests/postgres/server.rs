//! A Postgres server as the tests of every server see it.

use std::net::SocketAddr;
use std::time::Duration;

use lock_testkit::{PostgresServer, eventually};
use tokio::sync::OnceCell;
use tokio::time::timeout;

use crate::behaviours::{LIMIT, Server, as_launched, client, held, patient, released};

/// The sessions whose advisory locks show that they listen.
const LISTENERS: &str = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'";

/// The server that all tests use which leave it as they found it.
pub(crate) async fn shared() -> &'static PostgresServer {
    static SHARED: OnceCell<PostgresServer> = OnceCell::const_new();
    SHARED.get_or_init(PostgresServer::start).await
}

impl Server for PostgresServer {
    /// Eight for requests, and one that listens.
    const CONNECTIONS: usize = 9;

    async fn start() -> Self {
        Self::start().await
    }

    async fn shared() -> &'static Self {
        shared().await
    }

    fn url_at(address: SocketAddr) -> String {
        format!("postgres://postgres@{address}/postgres")
    }

    as_launched!();

    async fn pushes(&self) -> usize {
        number(self, LISTENERS) as usize
    }

    /// No hold, no place in a queue, no session. Marks of withdrawn claims go with later withdrawals.
    async fn until_nothing_is_left(&self) {
        let left = "SELECT (SELECT count(*) FROM leasehold.locks_grants WHERE owner IS NOT NULL) \
            + (SELECT count(*) FROM leasehold.locks_queue)";
        assert_eq!(number(self, left), 0);
        eventually("the connections are closed", LIMIT, async || sessions(self) == 0).await;
        assert_eq!(number(self, LISTENERS), 0);
        until_old_marks_are_gone(self).await;
    }
}

async fn until_old_marks_are_gone(server: &PostgresServer) {
    server.psql("UPDATE leasehold.locks_withdrawn SET forget_at = now()");
    let old = "SELECT count(*) FROM leasehold.locks_withdrawn WHERE forget_at < clock_timestamp()";
    let client = client(&server.url()).await;
    let guard = held(&client, "x").await;
    eventually("the marks are gone", LIMIT, async || {
        let _ = timeout(Duration::from_millis(1), client.acquire(patient("x"))).await;
        number(server, old) == 0
    })
    .await;
    released(guard).await;
}

pub(crate) fn number(server: &PostgresServer, sql: &str) -> u64 {
    server.psql(sql).parse().expect("a number")
}

/// The sessions of clients, that of the question apart.
pub(crate) fn sessions(server: &PostgresServer) -> u64 {
    let all = "SELECT count(*) - 1 FROM pg_stat_activity WHERE backend_type = 'client backend'";
    number(server, all)
}
