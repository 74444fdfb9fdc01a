//! The mutants of the tables and functions in Postgres.

use crate::mutants::mutant::Mutant;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a newer script keeps users of locks out",
        file: "lock-postgres/src/schema/rights.sql",
        from: "AND a.privilege_type = 'EXECUTE' AND",
        to: "AND false AND",
        test: "-p leasehold --all-features --test postgres security::c32_users_of_locks_may_call_what_a_newer_script_adds",
    },
    Mutant {
        name: "a ghost goes the short way",
        file: "lock-postgres/src/schema/table/acquire.sql",
        from: "AND NOT EXISTS (SELECT FROM \"@schema@\".\"@table@_withdrawn\" w WHERE w.owner = me)
",
        to: "
",
        test: "-p leasehold --all-features --test postgres together::c19_a_late_request_in_company_is_refused",
    },
    Mutant {
        name: "a newcomer goes the short way past those who wait",
        file: "lock-postgres/src/schema/table/acquire.sql",
        from: "                AND NOT EXISTS (SELECT FROM \"@schema@\".\"@table@_queue\" q
                    WHERE q.name = lock_name AND q.place > g.served)
                RETURNING",
        to: "RETURNING",
        test: "-p leasehold --all-features --test postgres together::c27_in_company_nobody_passes_those_who_wait",
    },
    Mutant {
        name: "several taken past one that is busy",
        file: "lock-postgres/src/schema/table/several.sql",
        from: "EXIT WHEN token IS NULL;",
        to: "CONTINUE WHEN token IS NULL;",
        test: "-p leasehold --all-features --test postgres c39_no_lock_behind_a_busy_one_is_taken",
    },
    Mutant {
        name: "a jammed lock is waited for amid others",
        file: "lock-postgres/src/schema/table/several.sql",
        from: "FOR UPDATE SKIP LOCKED;",
        to: "FOR UPDATE;",
        test: "-p leasehold --all-features --test postgres c39_a_jammed_lock_keeps_nobody_from_those_before_it",
    },
    Mutant {
        name: "anybody releases the row",
        file: "lock-postgres/src/schema/table/release.sql",
        from: "released := coalesce(held.owner = me AND held.expires_at > clock_timestamp(), false);",
        to: "released := coalesce(held.expires_at > clock_timestamp(), false);",
        test: "-p leasehold --all-features --test postgres conformance::table::c14_releasing_what_is_lost_is_not_held",
    },
    Mutant {
        name: "marks that a crash forgets",
        file: "lock-postgres/src/schema/fence.sql",
        from: "PERFORM \"@schema@\".\"@table@_v1_durably\"();
    INSERT INTO",
        to: "INSERT INTO",
        test: "-p leasehold --all-features --test postgres tokens::c24_the_mark_of_a_fence_survives_a_crash",
    },
    Mutant {
        name: "a ghost is let into the table",
        file: "lock-postgres/src/schema/table/acquire.sql",
        from: "-- withdrawal comes later, and finds the grant.
        IF EXISTS (",
        to: "IF false AND EXISTS (",
        test: "-p leasehold --all-features --test postgres conformance::table::c19_a_late_request_of_a_withdrawn_claim_is_refused",
    },
    Mutant {
        name: "a release hands nothing over",
        file: "lock-postgres/src/schema/table/release.sql",
        from: "nothing is handed over: the waiters find the lock free.
    IF EXISTS (",
        to: "
    IF false AND EXISTS (",
        test: "-p leasehold --all-features --test postgres conformance::table::c28_a_waiter_is_queued_by_its_first_attempt",
    },
    Mutant {
        name: "a listening session is always taken for alive",
        file: "lock-postgres/src/schema/table/hand_over.sql",
        from: "AND pg_try_advisory_xact_lock_shared(",
        to: "AND false AND pg_try_advisory_xact_lock_shared(",
        test: "-p leasehold --all-features --test postgres faults::c28_a_client_that_is_gone_costs_nothing",
    },
    Mutant {
        name: "nobody is told of a grant",
        file: "lock-postgres/src/schema/table/release.sql",
        from: "PERFORM pg_catalog.pg_notify(t.channel, t.message)
                FROM unnest(ended.channels, ended.messages) t (channel, message);",
        to: "NULL;",
        test: "-p leasehold --all-features --test postgres conformance::table::c28_a_waiter_is_queued_by_its_first_attempt",
    },
    Mutant {
        name: "a hand-off is told that no synchronous standby has",
        file: "lock-postgres/src/schema/table/release.sql",
        from: "IF \"@schema@\".\"@table@_v1_is_surely_committed\"(since) THEN",
        to: "IF true THEN",
        test: "-p leasehold --all-features --test postgres synchronous::p2_a_hand_off_that_no_synchronous_standby_has_is_not_told",
    },
    Mutant {
        name: "the routines of a newer script are for nobody where default rights are hardened",
        file: "lock-postgres/src/schema/rights.sql",
        from: "CONTINUE WHEN ours::oid = ANY (current_setting('leasehold.routines')::oid[]);",
        to: "CONTINUE WHEN (SELECT p.proacl IS NOT NULL FROM pg_proc p WHERE p.oid = ours);",
        test: "-p leasehold --all-features --test postgres rights::c14_with_hardened_defaults_the_documented_grants_let_users_release",
    },
    Mutant {
        name: "the script overwrites a later format",
        file: "lock-postgres/src/schema/begin.sql",
        from: "IF found > @format@ THEN",
        to: "IF false THEN",
        test: "-p leasehold --all-features --test postgres formats::p2_a_schema_of_a_later_format_is_refused_and_left_alone",
    },
    Mutant {
        name: "grants that a crash forgets",
        file: "lock-postgres/src/schema/table/grant.sql",
        from: "-- A grant is on disk before it is told, whatever the session's default is.
    IF current_setting('synchronous_commit') = 'off' THEN",
        to: "IF false THEN",
        test: "-p leasehold --all-features --test postgres tokens::c22_a_lock_and_its_token_survive_a_crash",
    },
    Mutant {
        name: "old grants are kept",
        file: "lock-postgres/src/schema/table/grant.sql",
        from: "permits = last.permits, oldest = last.oldest
        WHERE g.name = lock_name AND g.token = last.token;",
        to: "permits = last.permits, oldest = last.oldest
        WHERE g.name = lock_name AND g.token < 0;",
        test: "-p leasehold --all-features --test postgres old_rows::r4_locks_that_are_no_longer_used_are_forgotten",
    },
    Mutant {
        name: "a lock is forgotten with a token ahead of the clock",
        file: "lock-postgres/src/schema/table/admin.sql",
        from: "cut_off bigint := ",
        to: "cut_off bigint := 9007199254740991 + ",
        test: "-p leasehold --all-features --test postgres old_rows::r4_locks_that_are_no_longer_used_are_forgotten",
    },
    Mutant {
        name: "a stale transaction passes the fence",
        file: "lock-postgres/src/schema/fence.sql",
        from: "IF greatest_seen > token THEN",
        to: "IF greatest_seen < token THEN",
        test: "-p leasehold --all-features --test postgres fence::c24_a_stale_holders_whole_transaction_fails",
    },
    Mutant {
        name: "names mean what the caller's search_path says",
        file: "lock-postgres/src/schema/table/acquire.sql",
        from: "OUT holder text, OUT ahead bigint
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s'
SET enable_seqscan = off AS $$",
        to: "OUT holder text, OUT ahead bigint
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = public SET lock_timeout = '1s'
SET enable_seqscan = off AS $$",
        test: "-p leasehold --all-features --test postgres security::c32_what_others_create_in_public_is_never_called",
    },
    Mutant {
        name: "anybody may call the functions",
        file: "lock-postgres/src/schema/rights.sql",
        from: "EXECUTE format('REVOKE ALL ON ROUTINE %s FROM PUBLIC', ours);",
        to: "NULL;",
        test: "-p leasehold --all-features --test postgres security::c32_users_of_locks_have_no_rights_on_the_tables",
    },
    Mutant {
        name: "a waiter whose session was cut loses its place",
        file: "lock-postgres/src/schema/table/hand_over.sql",
        from: "last.served := coalesce(passed_over - 1, looked_at);",
        to: "last.served := looked_at;",
        test: "-p leasehold --all-features --test postgres faults::c28_a_waiter_whose_session_was_cut_is_passed_over_and_keeps_its_place",
    },
    Mutant {
        name: "a reader passes a writer that waits in a table",
        file: "lock-postgres/src/schema/table/acquire_beside.sql",
        from: "    ELSIF NOT is_blocked THEN",
        to: "    ELSE",
        test: "-p leasehold --all-features --test postgres conformance::table::c34_nobody_passes_those_who_wait",
    },
    Mutant {
        name: "a slot of a table is given twice",
        file: "lock-postgres/src/schema/table/holders.sql",
        from: "EXCEPT SELECT unnest(h.slots) FROM",
        to: "EXCEPT SELECT unnest(h.slots) + 1000 FROM",
        test: "-p leasehold --all-features --test postgres conformance::table::c36_a_permit_is_a_slot",
    },
    Mutant {
        name: "a permit is not free at the end of its hold",
        file: "lock-postgres/src/schema/table/holders.sql",
        from: "h.token >= last.oldest AND h.expires_at <= clock_timestamp();",
        to: "h.token >= last.oldest AND false;",
        test: "-p leasehold --all-features --test postgres kinds::c38_a_dead_holders_permit_goes_to_who_waits_for_it",
    },
    Mutant {
        name: "a release lets in the first of those who fit",
        file: "lock-postgres/src/schema/table/hand_over.sql",
        from: "EXIT WHEN waiter.permits IS NULL;",
        to: "EXIT;",
        test: "-p leasehold --all-features --test postgres kinds::c36_those_who_are_let_in_together_have_slots_of_their_own",
    },
    Mutant {
        name: "nobody is told its slots",
        file: "lock-postgres/src/schema/table/hand_over.sql",
        from: "nullif(array_to_string(slots, ','), '')",
        to: "NULL",
        test: "-p leasehold --all-features --test postgres kinds::c36_those_who_are_let_in_together_have_slots_of_their_own",
    },
    Mutant {
        name: "an exclusive hold looks at those of other kinds",
        file: "lock-postgres/src/schema/table/acquire.sql",
        from: "IF held.permits IS NOT NULL THEN
                held := ",
        to: "IF true THEN
                held := ",
        test: "-p leasehold --all-features --test postgres kinds::c33_an_exclusive_hold_does_not_look_at_others",
    },
    Mutant {
        name: "a ghost is let in beside others",
        file: "lock-postgres/src/schema/table/acquire_beside.sql",
        from: "-- C19: as in `acquire`.
        IF EXISTS (",
        to: "IF false AND EXISTS (",
        test: "-p leasehold --all-features --test postgres conformance::table::c38_a_withdrawal_ends_its_own_hold_alone",
    },
    Mutant {
        name: "an eviction of one owner ends the holds of all",
        file: "lock-postgres/src/schema/table/admin.sql",
        from: "AND left(h.owner::text, 8) = coalesce(digits, left(h.owner::text, 8))",
        to: "",
        test: "-p leasehold --all-features --test postgres kinds::c38_an_eviction_that_comes_too_late_ends_nobody_else",
    },
    Mutant {
        name: "occurrence recorded after a loss, on Postgres",
        file: "lock-postgres/src/schema/table/runs.sql",
        from: "WHERE g.name = lock_name AND g.token = of_token AND g.owner = me
            AND g.expires_at > clock_timestamp() FOR UPDATE;",
        to: "WHERE g.name = lock_name FOR UPDATE;",
        test: "-p leasehold --all-features --test postgres c42_a_holder_that_lost_the_lock_cannot_record",
    },
    Mutant {
        name: "a delayed release that leaves the hold to its owner, on Postgres",
        file: "lock-postgres/src/schema/table/runs.sql",
        from: "SET owner = retired, expires_at",
        to: "SET expires_at",
        test: "-p leasehold --all-features --test postgres c41_a_hold_whose_release_is_delayed_is_nobodys",
    },
    Mutant {
        name: "after a crash the places of waiters begin anew",
        file: "lock-postgres/src/schema/table/tables.sql",
        from: "(SELECT c.relpersistence = 'u' FROM",
        to: "(SELECT c.relpersistence = 'x' FROM",
        test: "-p leasehold --all-features --test postgres tokens::c27_the_order_is_kept_after_a_crash",
    },
];
