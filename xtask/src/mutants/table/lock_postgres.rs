//! The mutants of `lock-postgres`.

use crate::mutants::mutant::Mutant;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "anybody releases the row",
        file: "lock-postgres/src/schema/lease_table.sql",
        from: "WHERE l.name = lock_name AND l.owner = me AND l.expires_at > clock_timestamp();
    IF NOT FOUND THEN
        RETURN false;",
        to: "WHERE l.name = lock_name AND l.expires_at > clock_timestamp();
    IF NOT FOUND THEN
        RETURN false;",
        test: "-p leasehold --all-features --test postgres conformance::table::c14_releasing_what_is_lost_is_not_held",
    },
    Mutant {
        name: "an end amid the handshake is a refusal",
        file: "lock-postgres/src/error.rs",
        from: "matches!(error, Error::Io(_) | Error::Protocol(_))",
        to: "matches!(error, Error::Io(_))",
        test: "-p leasehold --all-features --test postgres faults::c15_a_connection_that_ends_amid_the_handshake_is_a_passing_failure",
    },
    Mutant {
        name: "any session holds for the owner",
        file: "lock-postgres/src/advisory/holds.rs",
        from: "AND k.objsubid = 1 AND k.granted AND k.pid = l.process \\",
        to: "AND k.objsubid = 1 AND k.granted \\",
        test: "-p leasehold --all-features --test postgres elsewhere::c10_an_attached_lease_is_not_extended_on_the_lock_of_another",
    },
    Mutant {
        name: "a slow look is a loss",
        file: "lock-postgres/src/advisory/session_task.rs",
        from: "Err(error) if ends_session(&error) => Step::SessionOver(self.reason().await),",
        to: "Err(_) => Step::SessionOver(self.reason().await),",
        test: "-p leasehold --all-features --test postgres advisory::c08_a_server_that_is_slow_to_answer_is_no_loss",
    },
    Mutant {
        name: "marks that a crash forgets",
        file: "lock-postgres/src/schema/fence.sql",
        from: "PERFORM \"@schema@\".\"@table@_v1_durably\"();\n    INSERT INTO",
        to: "INSERT INTO",
        test: "-p leasehold --all-features --test postgres tokens::c24_the_mark_of_a_fence_survives_a_crash",
    },
    Mutant {
        name: "a late migrator does it all again",
        file: "lock-postgres/src/server.rs",
        from: "if made == Made::UnlessThere && is_true",
        to: "if false && is_true",
        test: "-p leasehold --all-features --test postgres migration::a_late_migrator_has_nothing_to_do",
    },
    Mutant {
        name: "a ghost is let into the table",
        file: "lock-postgres/src/schema/lease_table.sql",
        from: "IF EXISTS (SELECT FROM \"@schema@\".\"@table@_withdrawn\" w WHERE w.owner = me) THEN",
        to: "IF false THEN",
        test: "-p leasehold --all-features --test postgres conformance::table::c19_a_late_request_of_a_withdrawn_claim_is_refused",
    },
    Mutant {
        name: "a release hands nothing over",
        file: "lock-postgres/src/schema/lease_table.sql",
        from: "PERFORM \"@schema@\".\"@table@_v1_hand_over\"(lock_name, NULL, clock_limit);",
        to: "NULL;",
        test: "-p leasehold --all-features --test postgres conformance::table::c28_a_waiter_is_queued_by_its_first_attempt",
    },
    Mutant {
        name: "a listening session is always taken for alive",
        file: "lock-postgres/src/schema/lease_table.sql",
        from: "OR NOT pg_try_advisory_xact_lock_shared(",
        to: "OR true OR pg_try_advisory_xact_lock_shared(",
        test: "-p leasehold --all-features --test postgres faults::c28_a_client_that_is_gone_costs_nothing",
    },
    Mutant {
        name: "grants that a crash forgets",
        file: "lock-postgres/src/schema/grant.sql",
        from: "PERFORM set_config('synchronous_commit', 'on', true);",
        to: "NULL;",
        test: "-p leasehold --all-features --test postgres tokens::c22_a_lock_and_its_token_survive_a_crash",
    },
    Mutant {
        name: "a stale transaction passes the fence",
        file: "lock-postgres/src/schema/fence.sql",
        from: "IF greatest_seen > token THEN",
        to: "IF greatest_seen < token THEN",
        test: "-p leasehold --all-features --test postgres fence::c24_a_stale_holders_whole_transaction_fails",
    },
    Mutant {
        name: "one lock takes all connections of Postgres",
        file: "lock-postgres/src/connections.rs",
        from: "const PART_OF_ONE_LOCK: usize = 4;",
        to: "const PART_OF_ONE_LOCK: usize = 1;",
        test: "-p leasehold --all-features --test postgres transactions::c19_a_crowd_at_a_jammed_lock_costs_no_other",
    },
    Mutant {
        name: "each attempt at a jammed lock leaves another connection unread",
        file: "lock-postgres/src/connections.rs",
        from: "matches!(&self.state, IdleState::Unread(Some(left)) if left == name)",
        to: "matches!(&self.state, IdleState::Unread(Some(left)) if left != name)",
        test: "-p leasehold --all-features --test postgres transactions::c19_a_crowd_at_a_jammed_lock_costs_no_other",
    },
    Mutant {
        name: "a token ahead of the clock is shown as a time",
        file: "lock-postgres/src/sql.rs",
        from: "CASE WHEN {token} <= {now} THEN {token} END",
        to: "CASE WHEN {now} > 0 THEN {token} END",
        test: "-p leasehold --all-features --test postgres since::c45_a_token_ahead_of_the_clock_tells_no_time",
    },
    Mutant {
        name: "silent connections are kept",
        file: "lock-postgres/src/connections.rs",
        from: "self.replies.request_sent(SUSPECT_AFTER, || self.give_up_all())",
        to: "self.replies.request_sent(SUSPECT_AFTER, || ())",
        test: "-p leasehold --all-features --test postgres faults::a_swallowing_connection_is_replaced_while_the_lock_is_held",
    },
    Mutant {
        name: "nobody looks after a session",
        file: "lock-postgres/src/advisory/session_task.rs",
        from: "const LOOK_EVERY: Duration = Duration::from_secs(1);",
        to: "const LOOK_EVERY: Duration = Duration::from_secs(3600);",
        test: "-p leasehold --all-features --test postgres advisory::c08_a_session_that_ends_is_told_as_disconnected",
    },
    Mutant {
        name: "the server waits for a stopped process for ever",
        file: "lock-postgres/src/advisory/session_task.rs",
        from: "ttl.as_millis() + 1000)",
        to: "0 * ttl.as_millis())",
        test: "-p leasehold --all-features --test postgres advisory::c28_a_process_that_dies_or_stops_frees_its_locks",
    },
    Mutant {
        name: "an unknown parameter is left to the driver",
        file: "lock-postgres/src/options.rs",
        from: "parameters.refuse_unless(is_known_to_the_driver)?;",
        to: "let _ = parameters.refuse_unless(is_known_to_the_driver);",
        test: "-p lock-postgres --lib c32_a_bad_url_is_refused_without_being_repeated",
    },
];
