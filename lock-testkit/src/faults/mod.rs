//! The fault tests: the behaviour with any server that dies, stops, restarts or is unreachable.
//!
//! A server's tests are its [`Harness`] and two lines, [`test_faults!`](crate::test_faults) and
//! [`test_resources!`](crate::test_resources). They make one `#[tokio::test]` of each behaviour (`tokio` with
//! `macros` and `rt-multi-thread` must be a dev-dependency). The tests see locks as a second client does; features of
//! a single kind of server need separate tests. The common steps, such as [`held`], [`queued`] and [`served_within`],
//! are public for those.
//!
//! The tests are for servers whose locks outlive their process. They assume only the capabilities of the backend: one
//! with polling and without a queue passes too.
//!
//! # Panics
//! All functions panic if they see anything but the behaviour that the contract demands.

mod clients;
mod harness;
mod lost_replies;
mod outages;
mod resources;
mod server;
mod waiting;

pub use self::clients::{
    LIMIT, MINUTE, Waiting, acquiring, beside_a_network, client_at, client_of, client_through,
    fresh_name, held, patient, queued, released, renewed, served, served_within, turn, until_free,
    until_waiting,
};
pub use self::harness::Harness;
pub use self::outages::{every_call_fails_in_time, fails_in_time};
pub use self::server::Server;

/// All behaviours.
mod cases {
    pub use super::lost_replies::*;
    pub use super::outages::*;
    pub use super::resources::*;
    pub use super::waiting::*;
}

/// Makes one test of each behaviour under faults, for a [`Harness`].
///
/// A store that cannot pass all of them, such as one that forgets its locks at a restart, names those that it can:
/// `test_faults!(Mine: c17_a_dead_server_delays_no_call_beyond_its_time_out)`.
#[macro_export]
macro_rules! test_faults {
    ($harness:ty: $($test:ident)*) => {
        $crate::test_faults! { @tests [$harness] $($test)* }
    };
    ($harness:ty) => {
        $crate::test_faults! { @all tests [$harness] }
    };
    (@all $made:ident [$($harness:ty)?]) => {
        $crate::test_faults! { @$made [$($harness)?]
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
            c19_an_acquire_whose_reply_was_lost_is_taken_back
            c19_a_ghost_of_a_stopped_server_takes_nothing
            c19_a_request_that_comes_after_its_withdrawal_takes_nothing
            c16_a_release_whose_reply_was_lost_on_the_wire_is_released
            c41_a_run_of_which_nobody_learned_keeps_others_out_for_its_ttl
            c42_a_record_is_made_when_the_server_answers_again
            a_waiter_outlives_a_restart_of_the_server
            c28_a_cut_connection_costs_a_waiter_at_most_a_poll
            c28_a_missed_push_costs_at_most_a_poll
            c28_a_waiter_without_a_push_connection_polls
        }
    };
    // Makes the tests of a harness.
    (@tests [$harness:ty] $($test:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                $crate::faults::$test::<$harness>().await;
            }
        )*
    };
    // Makes the behaviours public. The compiler finds one that is missing in the list, since nobody could use it.
    (@export [] $($test:ident)*) => {
        pub use self::cases::{$($test),*};
    };
}

/// Makes one test of each behaviour about the costs and the remains of the protocol, for a [`Harness`].
#[macro_export]
macro_rules! test_resources {
    ($harness:ty) => {
        $crate::test_resources! { @all tests [$harness] }
    };
    (@all $made:ident [$($harness:ty)?]) => {
        $crate::test_faults! { @$made [$($harness)?]
            c12_many_holds_are_renewed
            c26_a_client_has_few_connections_however_much_it_waits_for
            r1_nothing_is_left_behind
            r1_waits_tries_and_extensions_leave_nothing_behind
            a_listing_of_many_locks_is_whole_and_sorted
        }
    };
}

test_faults! { @all export [] }
test_resources! { @all export [] }
