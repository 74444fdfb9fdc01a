//! The whole contract on a table, and the store's part of it for each other way to use Postgres.

/// Rows of a table.
mod table {
    use std::sync::Arc;

    use leasehold::core::backend::async_trait;
    use leasehold::{DistributedLock, LockName};
    use lock_testkit::PostgresServer;
    use lock_testkit::conformance::Harness;
    use lock_testkit::conformance_tests;

    use crate::support::connected;

    struct Table(&'static PostgresServer);

    #[async_trait]
    impl Harness for Table {
        async fn connect(&self) -> Arc<dyn DistributedLock> {
            connected(&self.0.url()).await
        }

        async fn evict(&self, name: &LockName) {
            let sql = "UPDATE leasehold.locks_grants SET owner = NULL WHERE name = ";
            self.0.psql(&format!("{sql}'{name}'"));
        }
    }

    conformance_tests!(Table(crate::server::shared().await));
}

/// Rows of a table, behind a pooler that gives each transaction another session.
mod pooled {
    use std::sync::Arc;

    use leasehold::core::Wakeup;
    use leasehold::core::backend::async_trait;
    use leasehold::{DistributedLock, LockName};
    use lock_testkit::conformance::Harness;
    use lock_testkit::conformance_tests;
    use lock_testkit::{PgBouncer, PostgresServer};
    use tokio::sync::OnceCell;

    use crate::support::connected;

    struct Pooled(&'static PostgresServer, &'static PgBouncer);

    impl Pooled {
        async fn shared() -> Self {
            static POOLER: OnceCell<PgBouncer> = OnceCell::const_new();
            let server = crate::server::shared().await;
            Self(server, POOLER.get_or_init(|| PgBouncer::start(server)).await)
        }
    }

    #[async_trait]
    impl Harness for Pooled {
        async fn connect(&self) -> Arc<dyn DistributedLock> {
            let lock = connected(&self.1.url()).await;
            assert!(matches!(lock.capabilities().wakeup, Wakeup::Poll(_)), "the pooler is seen");
            lock
        }

        async fn evict(&self, name: &LockName) {
            let sql = "UPDATE leasehold.locks_grants SET owner = NULL WHERE name = ";
            self.0.psql(&format!("{sql}'{name}'"));
        }
    }

    // The same routines run in other sessions, and waiters poll.
    conformance_tests! {
        Pooled::shared().await;
        c04_a_grant_lasts_for_all_of_its_ttl
        c08_the_signal_is_sticky_and_tells_the_reason
        c12_a_batch_is_answered_in_its_order
        c12_renewals_go_in_batches
        c14_a_bounded_wait_times_out
        c16_a_repeated_acquire_finds_its_own_grant
        c19_a_dropped_acquire_leaves_nothing
        c19_a_dropped_waiter_leaves_the_queue
        c19_a_late_request_of_a_withdrawn_claim_is_refused
        c20_a_guard_that_outlives_its_runtime_is_given_back
        c21_no_reply_goes_to_the_wrong_caller
        c22_concurrent_grants_have_distinct_growing_tokens
        c22_tokens_grow_from_task_to_task_and_from_client_to_client
        c26_a_reservation_yields_to_those_that_wait
        c26_waiters_of_a_client_share_one_place
        c27_a_release_lets_the_next_one_in
        c27_first_come_first_served
        c28_a_dead_holder_costs_no_more_than_its_ttl
        c28_a_waiter_is_queued_by_its_first_attempt
        c28_a_waiter_that_left_costs_nothing
        c28_an_eviction_lets_the_next_one_in
        c30_capabilities_are_data
        c31_the_doctor_examines_the_server
        c33_no_more_holds_than_permits
        c34_a_release_lets_in_all_that_fit
        c34_nobody_passes_those_who_wait
        c39_a_lost_reply_of_several_is_found_again
        c39_tries_for_several_are_never_all_refused
        c40_a_leader_that_resigns_hands_over_at_once
        c41_those_who_wait_are_served_after_the_span
        c44_a_watch_shows_grants_releases_and_evictions
        every_history_agrees_with_the_model
        r2_no_call_keeps_the_thread
        s3_of_many_that_try_at_once_one_is_granted
    }
}
