//! The mutants of advisory locks on Postgres.

use crate::mutants::mutant::Mutant;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "any session holds for the owner",
        file: "lock-postgres/src/schema/advisory/functions.sql",
        from: "WHERE s.process = g.process AND s.holds)",
        to: "WHERE s.holds)",
        test: "-p leasehold --all-features --test postgres elsewhere::c10_an_attached_lease_is_not_extended_on_the_lock_of_another",
    },
    Mutant {
        name: "a slow answer is a loss",
        file: "lock-postgres/src/advisory/hold.rs",
        from: "Err(error) if ends_session(&error) => Ok(Extension::Lost),",
        to: "Err(_) => Ok(Extension::Lost),",
        test: "-p leasehold --all-features --test postgres advisory::c08_a_server_that_is_slow_to_answer_is_no_loss",
    },
    Mutant {
        name: "nobody reads an idle session",
        file: "lock-postgres/src/advisory/hold.rs",
        from: "() = self.session.ended() => return self.reason().await,",
        to: "() = std::future::pending() => return self.reason().await,",
        test: "-p leasehold --all-features --test postgres advisory::c08_a_cut_connection_is_told_before_the_next_one_believes_for_long",
    },
    Mutant {
        name: "nobody asks a session for a sign of life",
        file: "lock-postgres/src/advisory/silence.rs",
        from: "pub(super) const PING_EVERY: Duration = Duration::from_secs(1);",
        to: "pub(super) const PING_EVERY: Duration = Duration::from_secs(3600);",
        test: "-p leasehold --all-features --test postgres advisory::c08_a_half_open_connection_is_told_within_three_seconds",
    },
    Mutant {
        name: "a waiter is let in beside the holder of a killed session",
        file: "lock-postgres/src/schema/advisory/functions.sql",
        from: "done := pg_sleep(coalesce(",
        to: "done := (coalesce(",
        test: "-p leasehold --all-features --test postgres advisory_ends::p2_nobody_is_let_in_beside_the_holder_of_a_killed_session",
    },
    Mutant {
        name: "each who tries waits anew for the holder of a killed session",
        file: "lock-postgres/src/schema/advisory/functions.sql",
        from: "ELSIF NOT waits THEN",
        to: "ELSIF false THEN",
        test: "-p leasehold --all-features --test postgres advisory_ends::c28_a_killed_session_keeps_nobody_out_for_long",
    },
    Mutant {
        name: "an eviction leaves no mark",
        file: "lock-postgres/src/schema/advisory/functions.sql",
        from: "VALUES (held.owner, clock_timestamp() + interval",
        to: "VALUES (gen_random_uuid(), clock_timestamp() + interval",
        test: "-p leasehold --all-features --test postgres advisory::c08_an_eviction_is_told_as_such_although_another_holds_by_then",
    },
    Mutant {
        name: "a grant of which nobody heard is kept",
        file: "lock-postgres/src/advisory/hold.rs",
        from: "if !self.heard {",
        to: "if false {",
        test: "-p leasehold --all-features --test postgres advisory::c28_a_grant_that_nobody_heard_of_is_given_back",
    },
    Mutant {
        name: "a wait that is given up stays in the queue",
        file: "lock-postgres/src/schema/advisory/functions.sql",
        from: "PERFORM pg_terminate_backend(of_process::integer);",
        to: "PERFORM of_process;",
        test: "-p leasehold --all-features --test postgres advisory::c19_a_wait_that_is_given_up_leaves_the_queue",
    },
    Mutant {
        name: "the server waits for a stopped process for ever",
        file: "lock-postgres/src/schema/advisory/functions.sql",
        from: "done := \"@schema@\".\"@table@_v1_bear_silence\"(ttl_ms + 1000);
        ELSIF",
        to: "NULL;
        ELSIF",
        test: "-p leasehold --all-features --test postgres advisory::c28_a_process_that_dies_or_stops_frees_its_locks",
    },
    Mutant {
        name: "an eviction ends what the session holds by then",
        file: "lock-postgres/src/schema/advisory/functions.sql",
        from: "AND g.token = h.token AND g.owner = h.owner",
        to: "AND g.token = h.token",
        test: "-p leasehold --all-features --test postgres elsewhere::c14_an_eviction_that_comes_too_late_ends_no_session",
    },
    Mutant {
        name: "advisory tokens are told before they are reserved",
        file: "lock-postgres/src/schema/advisory/functions.sql",
        from: "WHERE n.token <= (SELECT t.reserved FROM \"@schema@\".\"@table@_tokens\" t
                ORDER BY t.reserved DESC LIMIT 1)",
        to: "WHERE true",
        test: "-p leasehold --all-features --test postgres advisory_tokens::c22_a_token_that_is_not_reserved_waits_for_the_disk",
    },
    Mutant {
        name: "a crash forgets what was reserved",
        file: "lock-postgres/src/schema/advisory/functions.sql",
        from: "    PERFORM \"@schema@\".\"@table@_v1_durably\"();
    INSERT INTO",
        to: "    INSERT INTO",
        test: "-p leasehold --all-features --test postgres advisory_tokens::c22_tokens_of_advisory_locks_grow_through_a_crash",
    },
    Mutant {
        name: "after a crash tokens start from the time alone",
        file: "lock-postgres/src/schema/advisory/functions.sql",
        from: "VALUES ('', before)",
        to: "VALUES ('', 0)",
        test: "-p leasehold --all-features --test postgres advisory_tokens::c22_tokens_of_advisory_locks_grow_through_a_crash",
    },
    Mutant {
        name: "old grants of advisory locks are kept",
        file: "lock-postgres/src/schema/advisory/functions.sql",
        from: "WHERE b.name = lock_name AND b.token < of_token",
        to: "WHERE b.name = lock_name AND b.token < 0",
        test: "-p leasehold --all-features --test postgres advisory_tokens::c27_an_open_snapshot_does_not_slow_a_hot_advisory_lock",
    },
    Mutant {
        name: "the token of an advisory lock is forgotten with it",
        file: "lock-postgres/src/schema/advisory/functions.sql",
        from: "SELECT '', max(f.token) FROM forgotten f",
        to: "SELECT '', 0 FROM forgotten f",
        test: "-p leasehold --all-features --test postgres advisory_tokens::r4_advisory_locks_that_are_no_longer_used_are_forgotten",
    },
    Mutant {
        name: "the floor of advisory tokens outlives a crash that forgets some of them",
        file: "lock-postgres/src/schema/advisory/tables.sql",
        from: "CREATE UNLOGGED TABLE",
        to: "CREATE TABLE",
        test: "-p leasehold --all-features --test postgres advisory_tokens::c22_tokens_of_advisory_locks_grow_through_a_crash",
    },
    Mutant {
        name: "an eviction of one owner ends the advisory lock of another",
        file: "lock-postgres/src/schema/advisory/functions.sql",
        from: "AND left(h.owner::text, 8) = coalesce(digits, left(h.owner::text, 8))",
        to: "",
        test: "-p leasehold --all-features --test postgres elsewhere::c38_an_eviction_of_another_owner_ends_no_session",
    },
    Mutant {
        name: "the hand-over of an advisory lock waits for a standby",
        file: "lock-postgres/src/schema/advisory/functions.sql",
        from: "IF NOT is_reserved THEN",
        to: "IF false THEN",
        test: "-p leasehold --all-features --test postgres c27_a_grant_and_a_release_whose_tokens_are_reserved_commit_at_once",
    },
];
