//! Postgres: directly, behind a transaction pooler, and with a synchronous standby.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use leasehold::{DistributedLock, LockError};
use lock_testkit::chaos::{
    Fault, Register, SERVER_FAULTS, Store, Victim, clock_faults, settle_clock, strike_clock,
    strike_server,
};
use lock_testkit::{PgBouncer, PostgresServer, Proxy, eventually};
use tokio::time::sleep;

/// Limit for a very busy machine; a standby follows within a second.
const LIMIT: Duration = Duration::from_secs(60);

/// Failovers to the standby: the primary is killed; it is stopped, and goes on later; it runs on, and keeps its
/// connections.
const REPLACED: [&str; 3] = ["primary-killed", "primary-stopped", "primary-runs-on"];

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

/// A primary whose commits wait for its standby, which replaces it. Clients reach the primary of the day at one address.
pub(crate) struct WithStandby {
    primary: Postgres,
    standby: PostgresServer,
    address: Proxy,
}

impl WithStandby {
    /// Promotes the standby. New connections lead to it, and the former primary keeps the others until it has gone.
    async fn fail_over(&mut self, fault: &str, span: Duration) {
        let former = &mut self.primary.0;
        match fault {
            "primary-killed" => former.kill(),
            "primary-stopped" => former.stop(),
            _ => {}
        }
        self.standby.psql("SELECT pg_promote()");
        self.address.lead_to(self.standby.addr());
        sleep(span).await;
        if fault == "primary-stopped" {
            former.cont();
            sleep(span).await;
        }
        former.stop_immediately();
        let follower = self.standby.standby().await;
        self.primary = Postgres(std::mem::replace(&mut self.standby, follower));
    }

    async fn until_synchronous(&self) {
        const SYNCHRONOUS: &str =
            "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
        let is_synchronous = async || self.primary.0.try_psql(SYNCHRONOUS).as_deref() == Ok("1");
        eventually("the standby is synchronous", LIMIT, is_synchronous).await;
    }
}

impl Store for WithStandby {
    const NAME: &str = "postgres-standby";

    async fn start(_folder: &Path) -> Self {
        let primary = PostgresServer::start_with(&["synchronous_standby_names=*"]).await;
        let standby = primary.standby().await;
        let address = Proxy::start(primary.addr()).await;
        let pair = Self { primary: Postgres(primary), standby, address };
        pair.until_synchronous().await;
        pair
    }

    fn address(&self) -> Option<SocketAddr> {
        Some(self.address.addr())
    }

    fn url(&self, network: Option<SocketAddr>) -> String {
        self.primary.url(Some(network.unwrap_or(self.address.addr())))
    }

    async fn records(&self) -> u64 {
        self.primary.records().await
    }

    fn faults(&self) -> Vec<Fault> {
        let more = REPLACED.map(|name| Fault::new(Victim::Server, name));
        let stopped = Fault::new(Victim::Server, "standby-stopped");
        [&self.primary.faults()[..], &more, &[stopped]].concat()
    }

    async fn strike(&mut self, fault: &str, span: Duration) {
        match fault {
            "standby-stopped" => strike_server(&mut self.standby, "server-stopped", span).await,
            _ if REPLACED.contains(&fault) => self.fail_over(fault, span).await,
            _ => self.primary.strike(fault, span).await,
        }
        // The next failover loses nothing.
        self.until_synchronous().await;
    }

    connects_by_url!();
}
