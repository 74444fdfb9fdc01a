//! Servers that die, stop, restart or cannot be reached.

use std::net::SocketAddr;
use std::sync::Arc;

use leasehold::DistributedLock;
use leasehold::zookeeper::ZooKeeperBackend;
use lock_testkit::faults::Harness;
use lock_testkit::{ZooKeeperServer, eventually};

use crate::servers::one_member;
use crate::support::LIMIT;

struct ZooKeeperFaults;

impl Harness for ZooKeeperFaults {
    type Server = ZooKeeperServer;

    /// One for each TTL, and one for everything except claims.
    const CONNECTIONS: usize = 4;

    const AT_ONCE: usize = 50;

    async fn start() -> ZooKeeperServer {
        ZooKeeperServer::start().await
    }

    async fn shared() -> &'static ZooKeeperServer {
        one_member().await
    }

    async fn connect_at(address: SocketAddr) -> Arc<dyn DistributedLock> {
        let url = format!("zookeeper://{address}/");
        Arc::new(ZooKeeperBackend::connect(&url).await.expect("a connection"))
    }

    /// The server tells how many watches there are, not of whom: `CONNECTIONS` bounds the connections. A watch is set
    /// after its place exists, so this waits for the first.
    async fn pushes(server: &ZooKeeperServer) -> usize {
        eventually("a watch is set", LIMIT, async || watches(server).await > 0).await;
        1
    }

    async fn until_nothing_is_left(server: &ZooKeeperServer) {
        eventually("no claim is left", LIMIT, async || {
            !server.ask("dump").await.expect("an answer").contains("/leasehold/locks/")
        })
        .await;
        eventually("no watch is left", LIMIT, async || watches(server).await == 0).await;
    }
}

async fn watches(server: &ZooKeeperServer) -> u64 {
    figure(server, "zk_watch_count").await
}

/// Returns a figure of the server.
pub(crate) async fn figure(server: &ZooKeeperServer, name: &str) -> u64 {
    let figures = server.ask("mntr").await.expect("an answer");
    let figure = figures.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('\t'));
    figure.and_then(|figure| figure.parse().ok()).expect("a number")
}

// Three cases are left out. An acquisition begins with a read, so a network that swallows the first reply lets no
// claim through. Each TTL has its own connection, so no client waits by polling without one.
lock_testkit::test_faults!(ZooKeeperFaults:
    c17_a_stopped_server_delays_no_call_beyond_its_time_out
    c17_a_dead_server_delays_no_call_beyond_its_time_out
    c17_a_black_hole_delays_no_call_beyond_its_time_out
    c15_a_closed_connection_names_the_server
    c09_a_server_that_stops_under_a_holder_is_noticed_by_the_deadline
    c08_a_short_pause_of_the_server_is_no_loss
    c22_a_hold_and_its_token_survive_a_restart
    c12_a_connection_that_is_slow_to_open_costs_no_hold
    c12_a_client_on_its_own_runtime_renews_while_the_application_stands_still
    a_swallowing_connection_is_replaced_while_the_lock_is_held
    a_connection_that_was_closed_while_idle_is_no_error
    a_lock_outlives_the_runtime_it_was_first_used_on
    c19_a_ghost_of_a_stopped_server_takes_nothing
    c19_a_request_that_comes_after_its_withdrawal_takes_nothing
    c16_a_release_whose_reply_was_lost_on_the_wire_is_released
    c42_a_record_is_made_when_the_server_answers_again
    a_waiter_outlives_a_restart_of_the_server
    c28_a_cut_connection_costs_a_waiter_at_most_a_poll
    c28_a_missed_push_costs_at_most_a_poll
);
lock_testkit::test_resources!(ZooKeeperFaults);
