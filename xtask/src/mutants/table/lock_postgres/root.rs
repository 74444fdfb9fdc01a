//! The mutants of what both modes of Postgres share, and of what a table needs on the client.

use crate::mutants::mutant::Mutant;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "all who wait listen",
        file: "lock-postgres/src/table/waits.rs",
        from: "ahead.is_some_and(|ahead| ahead >= FAR);",
        to: "ahead.is_some_and(|ahead| ahead >= FAR * 1000);",
        test: "-p leasehold --all-features --test postgres far::c27_waiters_far_from_their_turn_come_near_one_by_one",
    },
    Mutant {
        name: "who is served lets nobody come near",
        file: "lock-postgres/src/table/hearing.rs",
        from: "sqlx::query(\"SELECT pg_advisory_unlock($1)\")",
        to: "sqlx::query(\"SELECT $1\")",
        test: "-p leasehold --all-features --test postgres far::c27_waiters_far_from_their_turn_come_near_one_by_one",
    },
    Mutant {
        name: "an end amid the handshake is a refusal",
        file: "lock-postgres/src/error.rs",
        from: "Error::Io(_) | Error::Protocol(_) | Error::PoolTimedOut",
        to: "Error::Io(_) | Error::PoolTimedOut",
        test: "-p leasehold --all-features --test postgres faults::c15_a_connection_that_ends_amid_the_handshake_is_a_passing_failure",
    },
    Mutant {
        name: "a late migrator does it all again",
        file: "lock-postgres/src/server.rs",
        from: "if made == Made::UnlessThere {",
        to: "if false {",
        test: "-p leasehold --all-features --test postgres migration::a_late_migrator_has_nothing_to_do",
    },
    Mutant {
        name: "one lock takes all connections of Postgres",
        file: "lock-postgres/src/connections.rs",
        from: "const PART_OF_ONE_LOCK: usize = 4;",
        to: "const PART_OF_ONE_LOCK: usize = 1;",
        test: "-p leasehold --all-features --test postgres transactions::c19_a_crowd_at_one_jammed_lock_leaves_connections_for_others",
    },
    Mutant {
        name: "each attempt at a jammed lock leaves another connection unread",
        file: "lock-postgres/src/connections.rs",
        from: "matches!(&self.state, IdleState::Unread(Some(left)) if left == name)",
        to: "matches!(&self.state, IdleState::Unread(Some(left)) if left != name)",
        test: "-p leasehold --all-features --test postgres transactions::c19_a_jammed_lock_costs_no_other",
    },
    Mutant {
        name: "a token ahead of the clock is shown as a time",
        file: "lock-postgres/src/sql.rs",
        from: "CASE WHEN {token} OPERATOR(pg_catalog.<=) {now} THEN {token} END",
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
        name: "owner ids stand in the text of requests",
        file: "lock-postgres/src/transaction.rs",
        from: "(Form::Prepared, Request::Call(call)) => connection.fetch_all(call.as_query()).await,",
        to: "(Form::Prepared, Request::Call(call)) => send_text(connection, call.as_text()).await,",
        test: "-p leasehold --all-features --test postgres security::c03_owner_ids_are_neither_logged_nor_shown",
    },
    Mutant {
        name: "the values of prepared statements are logged",
        file: "lock-postgres/src/transaction.rs",
        from: "DO $$ BEGIN PERFORM set_config('log_parameter_max_length', '0', false); \\
    EXCEPTION WHEN insufficient_privilege THEN NULL; END $$\";",
        to: "DO $$ BEGIN PERFORM 1; END $$\";",
        test: "-p leasehold --all-features --test postgres security::c03_owner_ids_are_neither_logged_nor_shown",
    },
    Mutant {
        name: "an unknown parameter is left to the driver",
        file: "lock-postgres/src/options.rs",
        from: "parameters.refuse_unless(is_known_to_the_driver)?;",
        to: "let _ = parameters.refuse_unless(is_known_to_the_driver);",
        test: "-p lock-postgres --lib c32_a_bad_url_is_refused_without_being_repeated",
    },
    Mutant {
        name: "renewals wait behind a crowd",
        file: "lock-postgres/src/connections.rs",
        from: "Purpose::Renewal if self.at_most > 1 =>",
        to: "Purpose::Renewal if self.at_most > 1000 =>",
        test: "-p leasehold --all-features --test postgres transactions::c12_a_crowd_at_jammed_locks_does_not_delay_renewals",
    },
    Mutant {
        name: "a full queue of messages is final",
        file: "lock-postgres/src/error.rs",
        from: "_ if code == QUEUE_FULL || ",
        to: "_ if ",
        test: "-p leasehold --all-features --test postgres faults::c15_a_full_queue_of_messages_is_a_passing_failure",
    },
    Mutant {
        name: "an idle client keeps its connections",
        file: "lock-postgres/src/idle.rs",
        from: "if kept.closer.is_none()",
        to: "if false && kept.closer.is_none()",
        test: "-p lock-postgres --lib c26_what_nobody_uses_is_closed_without_a_next_use",
    },
];
