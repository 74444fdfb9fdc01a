//! The `leasehold` command as users type it, on each kind of store.
//!
//! A store joins by an implementation of [`Store`] and a line at the end of this file.

#![allow(clippy::expect_used, clippy::panic)]

mod command_line;
mod doctor;
mod ending;
mod failover;
mod holding;
mod kinds;
mod languages;
mod leading;
mod looking;
mod losing;
mod metrics;
mod once;
mod packaging;
mod pages;
mod rotation;
mod running;
mod schema;
mod sharing;
mod shell;
mod snapshot;
mod starting;
mod store;
mod terminal;
mod unreleased;

use std::time::Duration;

/// Time that a loaded machine may add to a bound of the contract.
const SLACK: Duration = Duration::from_secs(3);

/// A time limit for waits that have none of their own.
const LIMIT: Duration = Duration::from_secs(180);

/// Makes a test of each check, each on a new store.
macro_rules! checks {
    ($name:ident: $store:expr; $($module:ident::$check:ident)*) => {
        mod $name {
            use crate::store::*;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $check() {
                    crate::$module::$check(&$store).await;
                }
            )*
        }
    };
}

/// Checks that hold on every store with all kinds.
macro_rules! shell_checks {
    ($name:ident: $store:expr $(; $($more:tt)*)?) => {
        checks! { $name: $store;
            running::c14_exit_codes_are_those_of_the_command
            running::the_command_knows_its_lock_and_its_output_is_its_own
            running::c39_a_command_has_all_of_its_locks_or_none
            running::signals_are_passed_on
            running::c19_who_is_interrupted_while_waiting_leaves_the_queue
            running::what_was_ignored_stays_ignored
            running::the_command_ends_with_a_killed_leasehold
            running::a_command_that_is_stopped_keeps_its_lock
            sharing::s4_no_increment_is_lost
            sharing::c29_a_foreign_holder_keeps_us_out_and_we_keep_it_out
            sharing::c28_the_next_run_is_in_after_the_ttl_of_a_killed_one
            sharing::c28_killed_waiters_stall_nobody
            kinds::c36_each_of_three_has_a_slot_and_a_fourth_has_none
            kinds::c36_a_command_knows_the_slots_of_its_own_hold_alone
            kinds::c34_a_writer_waits_for_readers_and_others_wait_behind_it
            losing::c08_lost_data_ends_the_command
            losing::c39_the_loss_of_one_of_several_locks_ends_the_command
            losing::c08_lost_data_ends_a_command_that_will_not_end
            ending::c08_the_lock_is_kept_while_what_a_signal_ended_cleans_up
            ending::c08_a_loss_is_told_at_once_and_a_second_interruption_kills
            losing::c08_a_loss_is_told_though_the_command_ended_first
            holding::a_program_holds_a_lock_until_its_input_ends
            holding::c08_a_program_reads_of_the_loss_of_its_lock
            holding::a_program_holds_locks_on_request
            holding::a_program_that_is_killed_frees_its_lock
            holding::a_later_command_gives_the_lock_back
            leading::c40_another_leads_when_the_leader_is_killed
            leading::c40_a_leader_that_lost_is_a_candidate_again
            leading::c40_a_leader_is_ready_while_it_leads
            leading::c40_a_hook_learns_of_each_change_in_order
            leading::c40_a_manager_that_stands_still_stops_no_leader
            leading::c40_a_command_that_failed_is_run_in_another_term
            leading::c40_who_is_signalled_campaigns_no_more
            leading::c40_who_is_signalled_after_a_loss_campaigns_no_more
            leading::following_prints_each_change
            once::c42_twenty_that_start_at_once_run_it_once
            once::c42_a_run_that_failed_runs_again
            once::c41_a_run_that_waits_for_another_is_done_or_runs
            once::c42_a_run_that_was_told_to_stop_is_not_recorded
            once::c41_a_short_command_keeps_others_out_for_the_span
            looking::the_commands_print
            looking::c31_the_doctor_tells_of_the_server
            looking::watching_prints_each_change
            looking::a_forced_release_ends_the_hold
            looking::what_people_read_cannot_be_forged
            $($($more)*)?
        }
    };
}

shell_checks!(file: File::start();
    looking::the_doctor_prints
    looking::c45_those_who_look_see_since_when_a_lock_is_held
    leading::c40_a_hook_that_hangs_ends_with_the_grace);
shell_checks!(redis: Redis::start().await;
    looking::the_doctor_prints
    looking::c45_those_who_look_see_since_when_a_lock_is_held
    once::c42_a_run_that_may_not_be_recorded_has_a_code_of_its_own
    once::c42_a_run_is_recorded_when_the_server_answers_again
    losing::c09_a_stopped_server_ends_the_command_by_the_deadline
    leading::c40_a_leader_cleans_up_before_another_leads);
// A quorum only has exclusive holds.
checks!(quorum: Quorum::start().await;
    running::c14_exit_codes_are_those_of_the_command
    running::the_command_knows_its_lock_and_its_output_is_its_own
    running::c39_a_command_has_all_of_its_locks_or_none
    sharing::c28_the_next_run_is_in_after_the_ttl_of_a_killed_one
    losing::c08_lost_data_ends_the_command
    losing::c09_a_stopped_server_ends_the_command_by_the_deadline
    looking::c31_the_doctor_tells_of_the_server);
// The command knows no store, but for `schema`: the other stores run the checks whose outcome is theirs.
#[cfg(any(feature = "etcd", feature = "postgres", feature = "zookeeper"))]
macro_rules! store_checks {
    ($name:ident: $store:expr $(; $($more:tt)*)?) => {
        checks! { $name: $store;
            running::c14_exit_codes_are_those_of_the_command
            running::c39_a_command_has_all_of_its_locks_or_none
            sharing::c28_the_next_run_is_in_after_the_ttl_of_a_killed_one
            kinds::c36_each_of_three_has_a_slot_and_a_fourth_has_none
            holding::a_later_command_gives_the_lock_back
            losing::c08_lost_data_ends_the_command
            losing::c09_a_stopped_server_ends_the_command_by_the_deadline
            leading::c40_another_leads_when_the_leader_is_killed
            once::c42_twenty_that_start_at_once_run_it_once
            once::c42_a_run_is_recorded_when_the_server_answers_again
            looking::c31_the_doctor_tells_of_the_server
            $($($more)*)?
        }
    };
}
#[cfg(feature = "etcd")]
store_checks!(etcd: Etcd::start().await;
    sharing::c28_killed_waiters_stall_nobody
    looking::the_commands_print);
#[cfg(feature = "postgres")]
store_checks!(postgres: Postgres::start().await;
    sharing::c28_killed_waiters_stall_nobody
    looking::the_commands_print
    looking::c45_those_who_look_see_since_when_a_lock_is_held);
#[cfg(feature = "zookeeper")]
store_checks!(zookeeper: ZooKeeper::start().await);
