//! Servers that are dead or stopped, and networks that lose requests.

use lock_testkit::Expect;
use std::net::SocketAddr;
use std::sync::Arc;

use lock_core::DistributedLock;
use lock_testkit::faults::{self, Server};
use memcached_backend::MemcachedBackend;

use crate::server::{Memcached, url_at};

struct Faults;

impl faults::Harness for Faults {
    type Server = Memcached;

    const CONNECTIONS: usize = 2;

    /// A connection carries one request at a time. An acquisition takes three, and a renewal two.
    const AT_ONCE: usize = 100;
    const HOLDS: usize = 200;

    async fn start() -> Memcached {
        Memcached::start(&[]).await
    }

    async fn shared() -> &'static Memcached {
        Memcached::shared().await
    }

    async fn connect_at(address: SocketAddr) -> Arc<dyn DistributedLock> {
        Arc::new(MemcachedBackend::connect(&url_at(address)).await.expect("a connection"))
    }

    async fn pushes(_: &Memcached) -> usize {
        unreachable!("its waiters poll")
    }

    /// Registers stay for two days, without a hold.
    async fn until_nothing_is_left(server: &Memcached) {
        let backend = Self::connect_at(server.addr()).await;
        assert_eq!(backend.expect_admin().list("", 100).await.expect("an answer"), []);
    }
}

// Three cases are left out. A cache keeps no holds through a restart
// (`c22_a_hold_and_its_token_survive_a_restart`, `a_waiter_outlives_a_restart_of_the_server`). And an acquire is
// two requests here: without the reply to the first, the second is not sent
// (`c19_an_acquire_whose_reply_was_lost_is_taken_back`).
lock_testkit::test_faults!(Faults:
    c17_a_stopped_server_delays_no_call_beyond_its_time_out
    c17_a_dead_server_delays_no_call_beyond_its_time_out
    c17_a_black_hole_delays_no_call_beyond_its_time_out
    c09_a_server_that_stops_under_a_holder_is_noticed_by_the_deadline
    c08_a_short_pause_of_the_server_is_no_loss
    c12_a_connection_that_is_slow_to_open_costs_no_hold
    c12_a_client_on_its_own_runtime_renews_while_the_application_stands_still
    a_swallowing_connection_is_replaced_while_the_lock_is_held
    a_connection_that_was_closed_while_idle_is_no_error
    a_lock_outlives_the_runtime_it_was_first_used_on
    c19_a_ghost_of_a_stopped_server_takes_nothing
    c19_a_request_that_comes_after_its_withdrawal_takes_nothing
    c16_a_release_whose_reply_was_lost_on_the_wire_is_released
    c28_a_cut_connection_costs_a_waiter_at_most_a_poll
    c28_a_missed_push_costs_at_most_a_poll
    c28_a_waiter_without_a_push_connection_polls
);
lock_testkit::test_resources!(Faults);
