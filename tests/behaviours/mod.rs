//! What holds on every server: each behaviour is written once here, and run on each of them.
//!
//! A server's tests are its [`Server`] and two lines, `test_faults!(…)` and `test_resources!(…)`,
//! which make one `#[tokio::test]` of each behaviour. They look at locks as a second client would;
//! what only one kind of server has, or shows, is tested in its own folder.

mod access;
mod clients;
mod lost_replies;
mod outages;
mod resources;
mod waiting;

use std::net::SocketAddr;
use std::time::Duration;

pub(crate) use self::access::*;
pub(crate) use self::clients::*;
pub(crate) use self::lost_replies::*;
pub(crate) use self::outages::*;
pub(crate) use self::resources::*;
pub(crate) use self::waiting::*;

/// The request time-out of the clients here.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

/// What a loaded machine may add to a bound of the contract.
pub(crate) const SLACK: Duration = Duration::from_millis(250);

/// A bound for what has none of its own.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// A server that can be disturbed, and whose locks outlive its process.
pub(crate) trait Server: Sized + 'static {
    /// The most connections that one client opens, whatever it does.
    const CONNECTIONS: usize;

    /// How many locks one client may ask for at once, each of which it then gets in good time.
    const AT_ONCE: usize = 1200;

    /// A server of one's own.
    async fn start() -> Self;

    /// The server that all tests use which leave it as they found it.
    async fn shared() -> &'static Self;

    fn addr(&self) -> SocketAddr;

    /// Where clients connect to a server, or to a network before it, at `address`.
    fn url_at(address: SocketAddr) -> String;

    fn url(&self) -> String {
        Self::url_at(self.addr())
    }

    /// Connections stay open, and nothing is answered.
    fn stop(&self);

    fn cont(&self);

    fn kill(&mut self);

    /// Starts it again with its data, at the same address.
    async fn restart(&mut self);

    /// How many connections or streams are there that tell waiters of their turn.
    async fn pushes(&self) -> usize;

    /// Returns once no client has left anything that stays, now that all of them are gone.
    async fn until_nothing_is_left(&self);
}

/// The methods of a [`Server`] that its launcher has already.
macro_rules! as_launched {
    () => {
        fn addr(&self) -> std::net::SocketAddr {
            self.addr()
        }

        fn stop(&self) {
            self.stop();
        }

        fn cont(&self) {
            self.cont();
        }

        fn kill(&mut self) {
            self.kill();
        }

        async fn restart(&mut self) {
            self.restart().await;
        }
    };
}

/// One test of each behaviour under faults.
macro_rules! test_faults {
    ($server:ty) => {
        $crate::behaviours::test_each! { $server;
            c17_a_stopped_server_delays_no_call_beyond_its_time_out
            c17_a_dead_server_delays_no_call_beyond_its_time_out
            c17_a_black_hole_delays_no_call_beyond_its_time_out
            c09_a_server_that_stops_under_a_holder_is_noticed_by_the_deadline
            c08_a_short_pause_of_the_server_is_no_loss
            c22_a_hold_and_its_token_survive_a_restart
            c12_a_connection_that_is_slow_to_open_costs_no_hold
            a_swallowing_connection_is_replaced_while_the_lock_is_held
            a_connection_that_was_closed_while_idle_is_no_error
            a_lock_outlives_the_runtime_it_was_first_used_on
            c19_an_acquire_whose_reply_was_lost_is_taken_back
            c19_a_ghost_of_a_stopped_server_takes_nothing
            c19_a_request_that_comes_after_its_withdrawal_takes_nothing
            c16_a_release_whose_reply_was_lost_on_the_wire_is_released
            a_waiter_outlives_a_restart_of_the_server
            c28_a_cut_connection_costs_a_waiter_at_most_a_poll
            c28_a_missed_push_costs_at_most_a_poll
            c28_a_waiter_without_a_push_connection_polls
        }
    };
}

/// One test of each behaviour that tells what the protocol costs and leaves behind.
macro_rules! test_resources {
    ($server:ty) => {
        $crate::behaviours::test_each! { $server;
            c12_a_thousand_holds_are_renewed
            c26_a_client_has_few_connections_however_much_it_waits_for
            r1_nothing_is_left_behind
            r1_waits_tries_and_extensions_leave_nothing_behind
            a_listing_of_many_locks_is_whole_and_sorted
        }
    };
}

macro_rules! test_each {
    ($server:ty; $($test:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                $crate::behaviours::$test::<$server>().await;
            }
        )*
    };
}

pub(crate) use {as_launched, test_each, test_faults, test_resources};
