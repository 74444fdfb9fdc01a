//! The mutants of what many callers ask of Postgres at once.

use crate::mutants::mutant::Mutant;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a newcomer in company passes those who wait in a table",
        file: "lock-postgres/src/schema/table/together.sql",
        from: "                AND NOT EXISTS (SELECT FROM \"@schema@\".\"@table@_queue\" q
                    WHERE q.name = names[i] AND q.place > g.served)
                RETURNING",
        to: "RETURNING",
        test: "-p leasehold --all-features --test postgres together::c27_in_company_nobody_passes_those_who_wait",
    },
    Mutant {
        name: "a release in company lets nobody in",
        file: "lock-postgres/src/schema/table/together.sql",
        from: "            AND NOT EXISTS (SELECT FROM \"@schema@\".\"@table@_queue\" q
                WHERE q.name = names[i] AND q.place > g.served);",
        to: ";",
        test: "-p leasehold --all-features --test postgres together::c27_in_company_nobody_passes_those_who_wait",
    },
    Mutant {
        name: "a ghost is let into the table in company",
        file: "lock-postgres/src/schema/table/together.sql",
        from: "WHERE w.owner = owners[i])",
        to: "WHERE false)",
        test: "-p leasehold --all-features --test postgres together::c19_a_late_request_in_company_is_refused",
    },
    Mutant {
        name: "a release in company ends the hold of another",
        file: "lock-postgres/src/schema/table/together.sql",
        from: "AND g.owner = owners[i] AND g.expires_at",
        to: "AND g.expires_at",
        test: "-p leasehold --all-features --test postgres together::c14_in_company_nobody_ends_or_takes_the_hold_of_another",
    },
    Mutant {
        name: "a jammed lock is waited for in company",
        file: "lock-postgres/src/schema/table/together.sql",
        from: "FOR UPDATE OF l SKIP LOCKED",
        to: "FOR UPDATE OF l",
        test: "-p leasehold --all-features --test postgres together::c19_a_jammed_lock_holds_up_no_company",
    },
    Mutant {
        name: "a jammed lock is waited for by releases in company",
        file: "lock-postgres/src/schema/table/together.sql",
        from: "FOR UPDATE SKIP LOCKED",
        to: "FOR UPDATE",
        test: "-p leasehold --all-features --test postgres together::c19_a_jammed_lock_holds_up_no_company",
    },
    Mutant {
        name: "a company waits for a name that another makes",
        file: "lock-postgres/src/schema/table/together.sql",
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
        file: "lock-postgres/src/schema/table/together.sql",
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
        file: "lock-postgres/src/schema/table/together.sql",
        from: "ORDER BY g.token DESC LIMIT 1) IS NULL",
        to: "ORDER BY g.token DESC LIMIT 1) IS NULL IS NOT NULL",
        test: "-p leasehold --all-features --test postgres together::c19_a_company_keeps_no_held_lock_from_others",
    },
    Mutant {
        name: "grants in company that a crash forgets",
        file: "lock-postgres/src/schema/table/together.sql",
        from: "PERFORM \"@schema@\".\"@table@_v1_durably\"();",
        to: "NULL;",
        test: "-p leasehold --all-features --test postgres together::c22_grants_in_company_wait_for_the_disk_and_releases_do_not",
    },
];
