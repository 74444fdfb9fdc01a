//! Servers that stop, and networks that lose requests: the faults of one server.
//!
//! One server of three is dead from the start, so each of the other two is needed, and one of them is disturbed.
//! [`membership`](crate::membership) tests restarts: a server that restarted waits for the dead one.

use std::net::SocketAddr;
use std::sync::Arc;

use leasehold::DistributedLock;
use leasehold::redis::QuorumBackend;
use lock_testkit::RedisServer;
use lock_testkit::faults::{Harness, Server};
use tokio::sync::OnceCell;

use crate::set::Set;

lock_testkit::test_faults!(QuorumFaults:
    c17_a_stopped_server_delays_no_call_beyond_its_time_out
    c17_a_black_hole_delays_no_call_beyond_its_time_out
    c09_a_server_that_stops_under_a_holder_is_noticed_by_the_deadline
    c08_a_short_pause_of_the_server_is_no_loss
    c12_a_connection_that_is_slow_to_open_costs_no_hold
    c12_a_client_on_its_own_runtime_renews_while_the_application_stands_still
    a_swallowing_connection_is_replaced_while_the_lock_is_held
    a_connection_that_was_closed_while_idle_is_no_error
    a_lock_outlives_the_runtime_it_was_first_used_on
    c19_an_acquire_whose_reply_was_lost_is_taken_back
    c19_a_ghost_of_a_stopped_server_takes_nothing
    c19_a_request_that_comes_after_its_withdrawal_takes_nothing
    c16_a_release_whose_reply_was_lost_on_the_wire_is_released
    c28_a_cut_connection_costs_a_waiter_at_most_a_poll
    c28_a_missed_push_costs_at_most_a_poll
    c28_a_waiter_without_a_push_connection_polls
);

/// Key of the disturbed server with the addresses of the others, for a client that knows it by the address of a
/// proxy.
const OTHERS: &str = "{}:others";

/// Three servers, the last of which is dead. The first is disturbed.
struct Decisive(Set);

impl Decisive {
    async fn start() -> Self {
        let mut set = Set::of(3).await;
        let [first, second, last] = &mut set.servers[..] else { panic!("three servers") };
        first.cli(&["SET", OTHERS, &format!("{},{}", second.addr(), last.addr())]);
        last.kill();
        Self(set)
    }

    fn first(&self) -> &RedisServer {
        &self.0.servers[0]
    }
}

impl Server for Decisive {
    fn addr(&self) -> SocketAddr {
        self.first().addr()
    }

    fn stop(&self) {
        self.first().stop();
    }

    fn cont(&self) {
        self.first().cont();
    }

    fn kill(&mut self) {
        self.0.servers[0].kill();
    }

    async fn restart(&mut self) {
        self.0.servers[0].restart().await;
    }
}

struct QuorumFaults;

impl Harness for QuorumFaults {
    type Server = Decisive;

    /// One for requests and one for pushes, to each living server.
    const CONNECTIONS: usize = 4;

    async fn start() -> Decisive {
        Decisive::start().await
    }

    async fn shared() -> &'static Decisive {
        static SHARED: OnceCell<Decisive> = OnceCell::const_new();
        SHARED.get_or_init(Decisive::start).await
    }

    async fn connect_at(address: SocketAddr) -> Arc<dyn DistributedLock> {
        let client = redis::Client::open(format!("redis://{address}")).expect("an address");
        let mut disturbed = client.get_multiplexed_async_connection().await.expect("it answers");
        let mut others = redis::cmd("GET");
        let others = others.arg(OTHERS).query_async::<String>(&mut disturbed).await;
        let url = format!("redis-quorum://{address},{}", others.expect("it knows them"));
        Arc::new(QuorumBackend::connect(&url).await.expect("a connection"))
    }

    async fn pushes(server: &Decisive) -> usize {
        server.first().cli(&["CLIENT", "LIST", "TYPE", "pubsub"]).text().lines().count()
    }

    /// No test here counts remains.
    async fn until_nothing_is_left(_server: &Decisive) {}
}
