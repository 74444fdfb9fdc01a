//! Servers that die, or are replaced while healthy, while their locks are held and waited for: the same on each
//! topology.

use leasehold::Wait;
use lock_testkit::{RedisCluster, RedisSentinels, RedisServer};

use crate::SOON;
use crate::cluster::name_at;
use crate::forgotten::{replicated, what_is_forgotten_is_told};
use crate::load::{Load, table};
use crate::sale::{STOCK, Sale};
use crate::support::{MINUTE, client, fresh_name, held, patient, queued, released, served, turn};

/// Servers, the first of which is a primary with replicas.
#[allow(async_fn_in_trait, reason = "a test awaits it in place, and needs no `Send`")]
pub(crate) trait Replicated {
    const TITLE: &str;

    /// Number of replicas of the first server.
    const REPLICAS: i64;

    /// Starts servers that soon replace a silent one.
    async fn start() -> Self;

    fn url(&self) -> String;

    /// Returns a new name of a lock on the first server.
    fn name(&self) -> String;

    /// Returns a new name of a lock on another server, if several have locks.
    fn name_elsewhere(&self) -> Option<String>;

    fn first(&mut self) -> &mut RedisServer;

    /// Cuts off the replicas of the first server.
    fn cut_replicas_off(&self);

    /// Lets a replica of the first server, which is healthy, take its place.
    async fn fail_over(&self);

    /// Waits until another server has the lock `name`.
    async fn until_replaced(&self, name: &str);

    /// Waits until each primary has all its replicas.
    async fn until_whole(&self);
}

impl Replicated for RedisCluster {
    const TITLE: &str = "Cluster: a primary is killed";
    const REPLICAS: i64 = 1;

    async fn start() -> Self {
        Self::start(SOON).await
    }

    fn url(&self) -> String {
        self.url()
    }

    fn name(&self) -> String {
        name_at(self, 0)
    }

    fn name_elsewhere(&self) -> Option<String> {
        Some(name_at(self, 1))
    }

    fn first(&mut self) -> &mut RedisServer {
        self.server(0)
    }

    fn cut_replicas_off(&self) {
        self.cut_replicas_off(0);
    }

    async fn fail_over(&self) {
        self.fail_over(0);
    }

    async fn until_replaced(&self, name: &str) {
        self.until_replaced(0, name).await;
    }

    async fn until_whole(&self) {
        self.until_whole().await;
    }
}

impl Replicated for RedisSentinels {
    const TITLE: &str = "Sentinel: the primary is killed";
    const REPLICAS: i64 = 2;

    async fn start() -> Self {
        Self::start(SOON).await
    }

    fn url(&self) -> String {
        self.url()
    }

    fn name(&self) -> String {
        fresh_name()
    }

    fn name_elsewhere(&self) -> Option<String> {
        None
    }

    fn first(&mut self) -> &mut RedisServer {
        self.server(0)
    }

    fn cut_replicas_off(&self) {
        self.cut_replicas_off(0);
    }

    async fn fail_over(&self) {
        self.fail_over().await;
    }

    async fn until_replaced(&self, _name: &str) {
        self.until_replaced(0).await;
    }

    async fn until_whole(&self) {
        self.until_replicated().await;
    }
}

/// Makes one test of each behaviour of servers one of which dies.
macro_rules! failover_tests {
    ($servers:ty: $($test:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test::<$servers>().await;
            }
        )*
    };
    ($servers:ty) => {
        failover_tests! { $servers:
            a_hold_and_its_waiter_outlive_their_primary
            a_hold_and_its_waiter_outlive_a_planned_failover
            c22_tokens_grow_past_what_a_failover_forgot
            c22_a_failover_under_load_repeats_no_token
            s4_a_sale_of_processes_is_exact
        }
    };
}

mod cluster {
    failover_tests!(lock_testkit::RedisCluster);
}

mod sentinel {
    failover_tests!(lock_testkit::RedisSentinels);
}

/// A hold outlives its primary, its waiter comes next, and the former primary, which returns as a replica of its
/// successor, does no harm.
pub(crate) async fn a_hold_and_its_waiter_outlive_their_primary<R: Replicated>() {
    let mut servers = R::start().await;
    let url = servers.url();
    let (holder, waiter, name) = (client(&url).await, client(&url).await, servers.name());
    let guard = held(&holder, &name).await;
    let token = guard.token();
    let request = patient(&name).wait(Wait::AtMost(MINUTE * 2));
    let waiting = queued(&waiter, &holder, request, &name).await;
    replicated(servers.first(), &name, R::REPLICAS);
    servers.first().kill();
    if let Some(other) = servers.name_elsewhere() {
        // A server that is down does not delay other locks.
        turn(&holder, &other).await;
    }
    servers.until_replaced(&name).await;
    guard.extend(MINUTE).await.expect("it is held, at its new primary");
    servers.first().restart().await;
    servers.until_whole().await;
    guard.extend(MINUTE * 2).await.expect("it is held");
    released(guard).await;
    let next = served(waiting).await;
    assert!(next.token() > token, "{} after {token}", next.token());
    released(next).await;
}

/// The former primary lives on as a replica, to which both clients are connected.
pub(crate) async fn a_hold_and_its_waiter_outlive_a_planned_failover<R: Replicated>() {
    let mut servers = R::start().await;
    let url = servers.url();
    let (holder, waiter, name) = (client(&url).await, client(&url).await, servers.name());
    let guard = held(&holder, &name).await;
    let token = guard.token();
    let waiting = queued(&waiter, &holder, patient(&name), &name).await;
    replicated(servers.first(), &name, R::REPLICAS);
    servers.fail_over().await;
    servers.until_replaced(&name).await;
    guard.extend(MINUTE * 2).await.expect("it is held, at its new primary");
    released(guard).await;
    let next = served(waiting).await;
    assert!(next.token() > token, "{} after {token}", next.token());
    released(next).await;
}

pub(crate) async fn c22_tokens_grow_past_what_a_failover_forgot<R: Replicated>() {
    let mut servers = R::start().await;
    let (client, name) = (client(&servers.url()).await, servers.name());
    let known = turn(&client, &name).await;
    replicated(servers.first(), &name, R::REPLICAS);
    servers.cut_replicas_off();
    let fail_over = async {
        servers.first().kill();
        servers.until_replaced(&name).await;
    };
    what_is_forgotten_is_told(&client, &name, known, fail_over).await;
}

/// A failover under load, as a table.
pub(crate) async fn c22_a_failover_under_load_repeats_no_token<R: Replicated>() {
    let mut servers = R::start().await;
    let (url, name) = (servers.url(), servers.name());
    let mut loads = vec![Load::start("a lock of the primary that dies", &url, &name).await];
    if let Some(other) = servers.name_elsewhere() {
        loads.push(Load::start("a lock of another primary", &url, &other).await);
    }
    for load in &loads {
        load.until_granted(100).await;
    }
    servers.first().kill();
    let killed: Vec<usize> = loads.iter().map(Load::mark).collect();
    servers.until_replaced(&name).await;
    for (load, grants) in loads.iter().zip(killed) {
        load.until_granted(grants + 100).await;
    }
    servers.first().restart().await;
    servers.until_whole().await;
    let mut rows = Vec::new();
    for load in loads {
        rows.push(load.end().await);
    }
    println!("{}", table(R::TITLE, &rows));
    for row in &rows {
        assert_eq!(row.repeated, 0, "{row:?}");
        assert!(row.after > row.before, "{row:?}");
    }
    for other in &rows[1..] {
        assert!(other.longest_pause < SOON, "a lock of another server was delayed: {other:?}");
    }
}

/// S4: a flash sale by processes, one of which is between its read and its write while its grant is forgotten.
pub(crate) async fn s4_a_sale_of_processes_is_exact<R: Replicated>() {
    let mut servers = R::start().await;
    let name = servers.name();
    let mut sale = Sale::open(&servers.url(), &name).await;
    sale.until_sold(STOCK / 4).await;
    servers.cut_replicas_off();
    let sold = sale.let_one_read().await;
    servers.first().kill();
    servers.until_replaced(&name).await;
    sale.until_sold(sold + STOCK / 4).await;
    assert_eq!(sale.let_it_write().await, "refused");
    let [(sold, left), (oversold, rest)] = sale.closed().await;
    assert_eq!((sold, left), (STOCK, 0));
    assert!(oversold + rest > STOCK, "the harness is blind: {oversold} sold, {rest} left");
}
