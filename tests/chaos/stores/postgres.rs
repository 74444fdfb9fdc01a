//! Postgres, directly and behind a transaction pooler.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use leasehold::{DistributedLock, LockError};
use lock_testkit::chaos::{
    Fault, Register, SERVER_FAULTS, Store, Victim, clock_faults, settle_clock, strike_clock,
    strike_server,
};
use lock_testkit::{PgBouncer, PostgresServer};

/// A Postgres server, whose sessions are terminated too, and whose clock is set.
pub(crate) struct Postgres(PostgresServer);

impl Store for Postgres {
    const NAME: &str = "postgres";

    async fn start(_folder: &Path) -> Self {
        Self(PostgresServer::start_with_clock().await)
    }

    fn address(&self) -> Option<SocketAddr> {
        Some(self.0.addr())
    }

    fn url(&self, network: Option<SocketAddr>) -> String {
        format!("postgres://postgres@{}/postgres", network.unwrap_or(self.0.addr()))
    }

    /// The rows of all tables.
    async fn records(&self) -> u64 {
        const TABLES: &str = "SELECT format('(SELECT count(*) FROM %I.%I)', schemaname, tablename) \
            FROM pg_tables WHERE schemaname = 'leasehold'";
        let counts: Vec<String> = self.0.psql(TABLES).lines().map(str::to_owned).collect();
        let rows = self.0.psql(&format!("SELECT {}", counts.join(" + ")));
        rows.trim().parse().expect("a number")
    }

    fn faults(&self) -> Vec<Fault> {
        let sessions = Fault::new(Victim::Server, "sessions-terminated");
        [&SERVER_FAULTS[..], &[sessions], &clock_faults(self.0.clock())].concat()
    }

    fn settle(&mut self) {
        settle_clock(self.0.clock());
    }

    async fn strike(&mut self, fault: &str, span: Duration) {
        const TERMINATE: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
            WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
        match fault {
            "clock-back" | "clock-forward" => strike_clock(self.0.clock(), fault, span).await,
            "sessions-terminated" => drop(self.0.try_psql(TERMINATE)),
            _ => strike_server(&mut self.0, fault, span).await,
        }
    }

    connects_by_url!();
}

/// A Postgres server behind a transaction pooler: no request finds its session again.
pub(crate) struct Pooled {
    server: Postgres,
    pooler: PgBouncer,
}

impl Store for Pooled {
    const NAME: &str = "postgres-pooled";

    async fn start(folder: &Path) -> Self {
        let server = Postgres::start(folder).await;
        // After a restart of the server the pooler would pause for 15 s.
        let pooler = PgBouncer::start_with(&server.0, &["server_login_retry = 1"]).await;
        Self { server, pooler }
    }

    fn address(&self) -> Option<SocketAddr> {
        Some(self.pooler.addr())
    }

    fn url(&self, network: Option<SocketAddr>) -> String {
        self.server.url(Some(network.unwrap_or(self.pooler.addr())))
    }

    async fn records(&self) -> u64 {
        self.server.records().await
    }

    fn faults(&self) -> Vec<Fault> {
        self.server.faults()
    }

    fn settle(&mut self) {
        self.server.settle();
    }

    async fn strike(&mut self, fault: &str, span: Duration) {
        self.server.strike(fault, span).await;
    }

    connects_by_url!();
}
