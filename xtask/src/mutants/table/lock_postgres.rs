//! The mutants of `lock-postgres`.

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
        name: "a newcomer in company passes those who wait in a table",
        file: "lock-postgres/src/schema/together.sql",
        from: "                AND NOT EXISTS (SELECT FROM \"@schema@\".\"@table@_queue\" q
                    WHERE q.name = names[i] AND q.place > g.served)
                RETURNING",
        to: "RETURNING",
        test: "-p leasehold --all-features --test postgres together::c27_in_company_nobody_passes_those_who_wait",
    },
    Mutant {
        name: "a release in company lets nobody in",
        file: "lock-postgres/src/schema/together.sql",
        from: "            AND NOT EXISTS (SELECT FROM \"@schema@\".\"@table@_queue\" q
                WHERE q.name = names[i] AND q.place > g.served);",
        to: ";",
        test: "-p leasehold --all-features --test postgres together::c27_in_company_nobody_passes_those_who_wait",
    },
    Mutant {
        name: "a ghost is let into the table in company",
        file: "lock-postgres/src/schema/together.sql",
        from: "WHERE w.owner = owners[i])",
        to: "WHERE false)",
        test: "-p leasehold --all-features --test postgres together::c19_a_late_request_in_company_is_refused",
    },
    Mutant {
        name: "a release in company ends the hold of another",
        file: "lock-postgres/src/schema/together.sql",
        from: "AND g.owner = owners[i] AND g.expires_at",
        to: "AND g.expires_at",
        test: "-p leasehold --all-features --test postgres together::c14_in_company_nobody_ends_or_takes_the_hold_of_another",
    },
    Mutant {
        name: "a jammed lock is waited for in company",
        file: "lock-postgres/src/schema/together.sql",
        from: "FOR UPDATE OF l SKIP LOCKED",
        to: "FOR UPDATE OF l",
        test: "-p leasehold --all-features --test postgres together::c19_a_jammed_lock_holds_up_no_company",
    },
    Mutant {
        name: "a jammed lock is waited for by releases in company",
        file: "lock-postgres/src/schema/together.sql",
        from: "FOR UPDATE SKIP LOCKED",
        to: "FOR UPDATE",
        test: "-p leasehold --all-features --test postgres together::c19_a_jammed_lock_holds_up_no_company",
    },
    Mutant {
        name: "a company waits for a name that another makes",
        file: "lock-postgres/src/schema/together.sql",
        from: "SET lock_timeout = '20ms' AS $$
DECLARE
    -- Only",
        to: "AS $$
DECLARE
    -- Only",
        test: "-p leasehold --all-features --test postgres together::c19_a_wait_in_company_ends_soon",
    },
    Mutant {
        name: "a company waits for an extension",
        file: "lock-postgres/src/schema/together.sql",
        from: "SET lock_timeout = '20ms' AS $$
DECLARE
    ours text[]",
        to: "AS $$
DECLARE
    ours text[]",
        test: "-p leasehold --all-features --test postgres together::c19_a_wait_in_company_ends_soon",
    },
    Mutant {
        name: "a company keeps held locks from others",
        file: "lock-postgres/src/schema/together.sql",
        from: "ORDER BY g.token DESC LIMIT 1) IS NULL",
        to: "ORDER BY g.token DESC LIMIT 1) IS NULL IS NOT NULL",
        test: "-p leasehold --all-features --test postgres together::c19_a_company_keeps_no_held_lock_from_others",
    },
    Mutant {
        name: "a company that nobody polls holds others up",
        file: "lock-postgres/src/table/together.rs",
        from: "let _turn = timeout(TURN_WITHIN, under_way.acquire()).await;",
        to: "let _turn = under_way.acquire().await;",
        test: "-p lock-postgres --all-features c17_those_who_are_not_polled_hold_nobody_up",
    },
    Mutant {
        name: "a newer script keeps users of locks out",
        file: "lock-postgres/src/schema/rights.sql",
        from: "AND a.privilege_type = 'EXECUTE' AND",
        to: "AND false AND",
        test: "-p leasehold --all-features --test postgres security::c32_users_of_locks_may_call_what_a_newer_script_adds",
    },
    Mutant {
        name: "grants in company that a crash forgets",
        file: "lock-postgres/src/schema/together.sql",
        from: "PERFORM \"@schema@\".\"@table@_v2_durably\"();",
        to: "NULL;",
        test: "-p leasehold --all-features --test postgres together::c22_grants_in_company_wait_for_the_disk_and_releases_do_not",
    },
    Mutant {
        name: "nobody has company in a table",
        file: "lock-postgres/src/table/together.rs",
        from: "let is_alone = Arc::strong_count(&outstanding) == 2;",
        to: "let is_alone = true;",
        test: "-p leasehold --all-features --test postgres together::c22_locks_that_are_asked_for_together_are_each_held_and_given_back",
    },
    Mutant {
        name: "it is asked for those who left",
        file: "lock-postgres/src/table/together.rs",
        from: "caller.strong_count() > 0",
        to: "caller.strong_count() < 9",
        test: "-p lock-postgres --all-features c19_nothing_is_asked_for_a_caller_that_has_left",
    },
    Mutant {
        name: "a ghost goes the short way",
        file: "lock-postgres/src/schema/lease_table.sql",
        from: "AND NOT EXISTS (SELECT FROM \"@schema@\".\"@table@_withdrawn\" w WHERE w.owner = me)
",
        to: "
",
        test: "-p leasehold --all-features --test postgres together::c19_a_late_request_in_company_is_refused",
    },
    Mutant {
        name: "a newcomer goes the short way past those who wait",
        file: "lock-postgres/src/schema/lease_table.sql",
        from: "                AND NOT EXISTS (SELECT FROM \"@schema@\".\"@table@_queue\" q
                    WHERE q.name = lock_name AND q.place > g.served)
                RETURNING",
        to: "RETURNING",
        test: "-p leasehold --all-features --test postgres together::c27_in_company_nobody_passes_those_who_wait",
    },
    Mutant {
        name: "several taken past one that is busy",
        file: "lock-postgres/src/schema/several.sql",
        from: "EXIT WHEN token IS NULL;",
        to: "CONTINUE WHEN token IS NULL;",
        test: "-p leasehold --all-features --test postgres c39_no_lock_behind_a_busy_one_is_taken",
    },
    Mutant {
        name: "a jammed lock is waited for amid others",
        file: "lock-postgres/src/schema/several.sql",
        from: "FOR UPDATE SKIP LOCKED;",
        to: "FOR UPDATE;",
        test: "-p leasehold --all-features --test postgres c39_a_jammed_lock_keeps_nobody_from_those_before_it",
    },
    Mutant {
        name: "anybody releases the row",
        file: "lock-postgres/src/schema/lease_table.sql",
        from: "released := coalesce(held.owner = me AND held.expires_at > clock_timestamp(), false);",
        to: "released := coalesce(held.expires_at > clock_timestamp(), false);",
        test: "-p leasehold --all-features --test postgres conformance::table::c14_releasing_what_is_lost_is_not_held",
    },
    Mutant {
        name: "an end amid the handshake is a refusal",
        file: "lock-postgres/src/error.rs",
        from: "Error::Io(_) | Error::Protocol(_) | Error::PoolTimedOut",
        to: "Error::Io(_) | Error::PoolTimedOut",
        test: "-p leasehold --all-features --test postgres faults::c15_a_connection_that_ends_amid_the_handshake_is_a_passing_failure",
    },
    Mutant {
        name: "any session holds for the owner",
        file: "lock-postgres/src/schema/advisory.sql",
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
        name: "marks that a crash forgets",
        file: "lock-postgres/src/schema/fence.sql",
        from: "PERFORM \"@schema@\".\"@table@_v2_durably\"();
    INSERT INTO",
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
        from: "-- withdrawal comes later, and finds the grant.
        IF EXISTS (",
        to: "IF false AND EXISTS (",
        test: "-p leasehold --all-features --test postgres conformance::table::c19_a_late_request_of_a_withdrawn_claim_is_refused",
    },
    Mutant {
        name: "a release hands nothing over",
        file: "lock-postgres/src/schema/lease_table.sql",
        from: "nothing is handed over: the waiters find the lock free.
    IF EXISTS (",
        to: "
    IF false AND EXISTS (",
        test: "-p leasehold --all-features --test postgres conformance::table::c28_a_waiter_is_queued_by_its_first_attempt",
    },
    Mutant {
        name: "a listening session is always taken for alive",
        file: "lock-postgres/src/schema/lease_table.sql",
        from: "AND pg_try_advisory_xact_lock_shared(",
        to: "AND false AND pg_try_advisory_xact_lock_shared(",
        test: "-p leasehold --all-features --test postgres faults::c28_a_client_that_is_gone_costs_nothing",
    },
    Mutant {
        name: "nobody is told of a grant",
        file: "lock-postgres/src/schema/lease_table.sql",
        from: "PERFORM pg_catalog.pg_notify(t.channel, t.message)
            FROM unnest(ended.channels, ended.messages) t (channel, message);",
        to: "NULL;",
        test: "-p leasehold --all-features --test postgres conformance::table::c28_a_waiter_is_queued_by_its_first_attempt",
    },
    Mutant {
        name: "grants that a crash forgets",
        file: "lock-postgres/src/schema/lease_table.sql",
        from: "-- A grant is on disk before it is told, whatever the session's default is.
    IF current_setting('synchronous_commit') = 'off' THEN",
        to: "IF false THEN",
        test: "-p leasehold --all-features --test postgres tokens::c22_a_lock_and_its_token_survive_a_crash",
    },
    Mutant {
        name: "old grants are kept",
        file: "lock-postgres/src/schema/lease_table.sql",
        from: "permits = last.permits, oldest = last.oldest
        WHERE g.name = lock_name AND g.token = last.token;",
        to: "permits = last.permits, oldest = last.oldest
        WHERE g.name = lock_name AND g.token < 0;",
        test: "-p leasehold --all-features --test postgres versions::r4_locks_that_are_no_longer_used_are_forgotten",
    },
    Mutant {
        name: "a lock is forgotten with a token ahead of the clock",
        file: "lock-postgres/src/schema/lease_table.sql",
        from: "SELECT FROM \"@schema@\".\"@table@_grants\" g WHERE g.name = l.name AND (
                g.token > \"@schema@\".\"@table@_v2_now_us\"() - 7 * 86400000000
                OR (g.owner IS NOT NULL AND g.expires_at > clock_timestamp())))
        AND NOT EXISTS (SELECT FROM \"@schema@\".\"@table@_holders\" h
            WHERE h.name = l.name AND h.expires_at > clock_timestamp())
        AND NOT EXISTS (SELECT FROM \"@schema@\".\"@table@_queue\" q WHERE q.name = l.name)
        LIMIT 1000 FOR UPDATE OF l SKIP LOCKED
    LOOP
        -- With the row locked it is looked at once more: somebody may just have been here.
        DELETE FROM \"@schema@\".\"@table@_holders\" h
            WHERE h.name = unused AND h.expires_at <= clock_timestamp();
        DELETE FROM \"@schema@\".\"@table@_grants\" g WHERE g.name = unused AND NOT (
            g.token > ",
        to: "SELECT FROM \"@schema@\".\"@table@_grants\" g WHERE g.name = l.name AND (
                0 > \"@schema@\".\"@table@_v2_now_us\"() - 7 * 86400000000
                OR (g.owner IS NOT NULL AND g.expires_at > clock_timestamp())))
        AND NOT EXISTS (SELECT FROM \"@schema@\".\"@table@_holders\" h
            WHERE h.name = l.name AND h.expires_at > clock_timestamp())
        AND NOT EXISTS (SELECT FROM \"@schema@\".\"@table@_queue\" q WHERE q.name = l.name)
        LIMIT 1000 FOR UPDATE OF l SKIP LOCKED
    LOOP
        -- With the row locked it is looked at once more: somebody may just have been here.
        DELETE FROM \"@schema@\".\"@table@_holders\" h
            WHERE h.name = unused AND h.expires_at <= clock_timestamp();
        DELETE FROM \"@schema@\".\"@table@_grants\" g WHERE g.name = unused AND NOT (
            0 > ",
        test: "-p leasehold --all-features --test postgres versions::r4_locks_that_are_no_longer_used_are_forgotten",
    },
    Mutant {
        name: "holds of version 1 are left behind",
        file: "lock-postgres/src/schema/lease_tables.sql",
        from: "SELECT l.name, l.token, l.owner, l.label, l.expires_at FROM",
        to: "SELECT l.name, l.token, NULL, l.label, l.expires_at FROM",
        test: "-p leasehold --all-features --test postgres versions::c22_clients_of_two_versions_share_their_locks",
    },
    Mutant {
        name: "a function of version 1 goes on with its old columns",
        file: "lock-postgres/src/schema/lease_tables.sql",
        from: "ALTER TABLE \"@schema@\".\"@table@\" DROP COLUMN token, DROP COLUMN owner, DROP COLUMN label,
            DROP COLUMN expires_at, DROP COLUMN process;",
        to: "ALTER TABLE \"@schema@\".\"@table@\" ALTER COLUMN token SET DEFAULT 0;",
        test: "-p leasehold --all-features --test postgres versions::p1_a_call_of_version_1_amid_the_migration_takes_nothing_unseen",
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
        name: "names mean what the caller's search_path says",
        file: "lock-postgres/src/schema/lease_table.sql",
        from: "OUT holder text, OUT ahead bigint
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off AS $$",
        to: "OUT holder text, OUT ahead bigint
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = public
SET enable_seqscan = off AS $$",
        test: "-p leasehold --all-features --test postgres security::c32_what_others_create_in_public_is_never_called",
    },
    Mutant {
        name: "anybody may call the functions",
        file: "lock-postgres/src/schema/rights.sql",
        from: "EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', ours);",
        to: "NULL;",
        test: "-p leasehold --all-features --test postgres security::c32_users_of_locks_have_no_rights_on_the_tables",
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
        name: "nobody reads an idle session",
        file: "lock-postgres/src/advisory/hold.rs",
        from: "() = self.session.ended() => return self.reason().await,",
        to: "() = std::future::pending() => return self.reason().await,",
        test: "-p leasehold --all-features --test postgres advisory::c08_a_cut_connection_is_told_before_the_next_one_believes_for_long",
    },
    Mutant {
        name: "nobody asks a session for a sign of life",
        file: "lock-postgres/src/advisory/hold.rs",
        from: "const PING_EVERY: Duration = Duration::from_secs(1);",
        to: "const PING_EVERY: Duration = Duration::from_secs(3600);",
        test: "-p leasehold --all-features --test postgres advisory::c08_a_half_open_connection_is_told_within_three_seconds",
    },
    Mutant {
        name: "an eviction leaves no mark",
        file: "lock-postgres/src/schema/advisory.sql",
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
        file: "lock-postgres/src/schema/advisory.sql",
        from: "PERFORM pg_terminate_backend(of_process::integer);",
        to: "PERFORM of_process;",
        test: "-p leasehold --all-features --test postgres advisory::c19_a_wait_that_is_given_up_leaves_the_queue",
    },
    Mutant {
        name: "the server waits for a stopped process for ever",
        file: "lock-postgres/src/schema/advisory.sql",
        from: "done := \"@schema@\".\"@table@_v2_bear_silence\"(ttl_ms + 1000);
    ELSE",
        to: "NULL;
    ELSE",
        test: "-p leasehold --all-features --test postgres advisory::c28_a_process_that_dies_or_stops_frees_its_locks",
    },
    Mutant {
        name: "an eviction ends what the session holds by then",
        file: "lock-postgres/src/schema/advisory.sql",
        from: "AND g.token = h.token AND g.owner = h.owner",
        to: "AND g.token = h.token",
        test: "-p leasehold --all-features --test postgres elsewhere::c14_an_eviction_that_comes_too_late_ends_no_session",
    },
    Mutant {
        name: "advisory tokens are told before they are reserved",
        file: "lock-postgres/src/schema/advisory.sql",
        from: "WHERE n.token <= (SELECT t.reserved FROM \"@schema@\".\"@table@_tokens\" t
                ORDER BY t.reserved DESC LIMIT 1)",
        to: "WHERE true",
        test: "-p leasehold --all-features --test postgres advisory_tokens::c22_a_token_that_is_not_reserved_waits_for_the_disk",
    },
    Mutant {
        name: "a crash forgets what was reserved",
        file: "lock-postgres/src/schema/advisory.sql",
        from: "    PERFORM \"@schema@\".\"@table@_v2_durably\"();
    INSERT INTO",
        to: "    INSERT INTO",
        test: "-p leasehold --all-features --test postgres advisory_tokens::c22_tokens_of_advisory_locks_grow_through_a_crash",
    },
    Mutant {
        name: "after a crash tokens start from the time alone",
        file: "lock-postgres/src/schema/advisory.sql",
        from: "wanted := greatest(wanted, before + 1);",
        to: "NULL;",
        test: "-p leasehold --all-features --test postgres advisory_tokens::c22_tokens_of_advisory_locks_grow_through_a_crash",
    },
    Mutant {
        name: "old grants of advisory locks are kept",
        file: "lock-postgres/src/schema/advisory.sql",
        from: "WHERE b.name = lock_name AND b.token < of_token",
        to: "WHERE b.name = lock_name AND b.token < 0",
        test: "-p leasehold --all-features --test postgres advisory_tokens::c27_an_open_snapshot_does_not_slow_a_hot_advisory_lock",
    },
    Mutant {
        name: "the token of an advisory lock is forgotten with it",
        file: "lock-postgres/src/schema/advisory.sql",
        from: "SELECT '', max(f.token) FROM forgotten f",
        to: "SELECT '', 0 FROM forgotten f",
        test: "-p leasehold --all-features --test postgres advisory_tokens::r4_advisory_locks_that_are_no_longer_used_are_forgotten",
    },
    Mutant {
        name: "the floor of advisory tokens outlives a crash that forgets some of them",
        file: "lock-postgres/src/schema/advisory_tables.sql",
        from: "CREATE UNLOGGED TABLE",
        to: "CREATE TABLE",
        test: "-p leasehold --all-features --test postgres advisory_tokens::c22_tokens_of_advisory_locks_grow_through_a_crash",
    },
    Mutant {
        name: "an unknown parameter is left to the driver",
        file: "lock-postgres/src/options.rs",
        from: "parameters.refuse_unless(is_known_to_the_driver)?;",
        to: "let _ = parameters.refuse_unless(is_known_to_the_driver);",
        test: "-p lock-postgres --lib c32_a_bad_url_is_refused_without_being_repeated",
    },
    Mutant {
        name: "a waiter whose session was cut loses its place",
        file: "lock-postgres/src/schema/lease_table.sql",
        from: "last.served := coalesce(passed_over - 1, looked_at);",
        to: "last.served := looked_at;",
        test: "-p leasehold --all-features --test postgres faults::c28_a_waiter_whose_session_was_cut_is_passed_over_and_keeps_its_place",
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
    Mutant {
        name: "a reader passes a writer that waits in a table",
        file: "lock-postgres/src/schema/lease_table.sql",
        from: "    ELSIF NOT is_blocked THEN",
        to: "    ELSE",
        test: "-p leasehold --all-features --test postgres conformance::table::c34_nobody_passes_those_who_wait",
    },
    Mutant {
        name: "a slot of a table is given twice",
        file: "lock-postgres/src/schema/lease_table.sql",
        from: "EXCEPT SELECT unnest(h.slots) FROM",
        to: "EXCEPT SELECT unnest(h.slots) + 1000 FROM",
        test: "-p leasehold --all-features --test postgres conformance::table::c36_a_permit_is_a_slot",
    },
    Mutant {
        name: "a permit is not free at the end of its hold",
        file: "lock-postgres/src/schema/lease_table.sql",
        from: "h.token >= last.oldest AND h.expires_at <= clock_timestamp();",
        to: "h.token >= last.oldest AND false;",
        test: "-p leasehold --all-features --test postgres kinds::c38_a_dead_holders_permit_goes_to_who_waits_for_it",
    },
    Mutant {
        name: "a release lets in the first of those who fit",
        file: "lock-postgres/src/schema/lease_table.sql",
        from: "EXIT WHEN waiter.permits IS NULL;",
        to: "EXIT;",
        test: "-p leasehold --all-features --test postgres kinds::c36_those_who_are_let_in_together_have_slots_of_their_own",
    },
    Mutant {
        name: "nobody is told its slots",
        file: "lock-postgres/src/schema/lease_table.sql",
        from: "nullif(array_to_string(slots, ','), '')",
        to: "NULL",
        test: "-p leasehold --all-features --test postgres kinds::c36_those_who_are_let_in_together_have_slots_of_their_own",
    },
    Mutant {
        name: "an exclusive hold looks at those of other kinds",
        file: "lock-postgres/src/schema/lease_table.sql",
        from: "IF held.permits IS NOT NULL THEN
                held := ",
        to: "IF true THEN
                held := ",
        test: "-p leasehold --all-features --test postgres kinds::c33_an_exclusive_hold_does_not_look_at_others",
    },
    Mutant {
        name: "a ghost is let in beside others",
        file: "lock-postgres/src/schema/lease_table.sql",
        from: "-- C19: as in `acquire`.
        IF EXISTS (",
        to: "IF false AND EXISTS (",
        test: "-p leasehold --all-features --test postgres conformance::table::c38_a_withdrawal_ends_its_own_hold_alone",
    },
    Mutant {
        name: "an eviction of one owner ends the holds of all",
        file: "lock-postgres/src/schema/lease_table.sql",
        from: "AND left(h.owner::text, 8) = coalesce(digits, left(h.owner::text, 8))",
        to: "",
        test: "-p leasehold --all-features --test postgres kinds::c38_an_eviction_that_comes_too_late_ends_nobody_else",
    },
    Mutant {
        name: "an eviction of one owner ends the advisory lock of another",
        file: "lock-postgres/src/schema/advisory.sql",
        from: "AND left(h.owner::text, 8) = coalesce(digits, left(h.owner::text, 8))",
        to: "",
        test: "-p leasehold --all-features --test postgres elsewhere::c38_an_eviction_of_another_owner_ends_no_session",
    },
    Mutant {
        name: "occurrence recorded after a loss, on Postgres",
        file: "lock-postgres/src/schema/runs.sql",
        from: "WHERE g.name = lock_name AND g.token = of_token AND g.owner = me
            AND g.expires_at > clock_timestamp() FOR UPDATE;",
        to: "WHERE g.name = lock_name FOR UPDATE;",
        test: "-p leasehold --all-features --test postgres c42_a_holder_that_lost_the_lock_cannot_record",
    },
    Mutant {
        name: "a delayed release that leaves the hold to its owner, on Postgres",
        file: "lock-postgres/src/schema/runs.sql",
        from: "SET owner = retired, expires_at",
        to: "SET expires_at",
        test: "-p leasehold --all-features --test postgres c41_a_hold_whose_release_is_delayed_is_nobodys",
    },
    Mutant {
        name: "the hand-over of an advisory lock waits for a standby",
        file: "lock-postgres/src/schema/advisory.sql",
        from: "IF NOT is_reserved THEN",
        to: "IF false THEN",
        test: "-p leasehold --all-features --test postgres c27_a_grant_and_a_release_whose_tokens_are_reserved_commit_at_once",
    },
];
