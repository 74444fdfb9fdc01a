//! The objects of locks in the database: tables and functions, as scripts.

mod found;
mod names;

use std::time::Duration;

use lock_core::backend::{UNCLAIMED_GRANT_TTL, WAITER_LIVENESS, WITHDRAWAL_REMEMBERED};

use crate::table::SESSION_GRACE;

pub(crate) use self::found::{Found, RUN_THE_SCRIPT};
pub(crate) use self::names::TableNames;

/// Format of the tables and functions that this version makes and accepts.
pub(crate) const FORMAT: i64 = 1;

/// SQL expression for the digest of a routine `p`: of its body, its rights and its settings.
const DIGEST: &str = "encode(substr(sha256(convert_to(\
    concat_ws(' ', p.prosrc, p.prosecdef, p.proconfig), 'UTF8')), 1, 8), 'hex')";

/// Begins a migration. Migrations run one at a time, and none waits for long.
const BEGIN: &str = "\
-- Leasehold's locks on Postgres. It may be run again, and beside clients at work.
BEGIN ISOLATION LEVEL READ COMMITTED;
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL lock_timeout = '5s';
SET LOCAL statement_timeout = '5s';
DO $$ BEGIN PERFORM pg_advisory_xact_lock(5508217395121431910); END $$;
";

/// Parts of the script, in order: a function stands after the objects that it uses. The format comes last, so
/// that its presence shows that all parts exist.
const PARTS: [&str; 16] = [
    include_str!("begin.sql"),
    include_str!("tables.sql"),
    include_str!("common.sql"),
    include_str!("fence.sql"),
    include_str!("table/tables.sql"),
    include_str!("table/grant.sql"),
    include_str!("table/sessions.sql"),
    include_str!("table/holders.sql"),
    include_str!("table/hand_over.sql"),
    include_str!("table/extend.sql"),
    include_str!("table/acquire.sql"),
    include_str!("table/release.sql"),
    include_str!("table/admin.sql"),
    include_str!("table/runs.sql"),
    include_str!("table/together.sql"),
    concat!(include_str!("rights.sql"), "\n", include_str!("format.sql")),
];

/// Returns one script that creates all objects.
pub(crate) fn script(names: &TableNames) -> String {
    migration(names).concat()
}

/// Returns the same script in the two parts that a client sends: the wait for other migrations, and the rest.
pub(crate) fn migration(names: &TableNames) -> [String; 2] {
    let rest = PARTS.join("\n").replace("@schema@", &names.schema).replace("@table@", &names.table);
    // C19, C28: the server keeps the bounds of the contract.
    let rest = rest
        .replace("@format@", &FORMAT.to_string())
        .replace("@digest@", DIGEST)
        .replace("@waiter_liveness_ms@", &millis(WAITER_LIVENESS))
        .replace("@unclaimed_grant_ttl_ms@", &millis(UNCLAIMED_GRANT_TTL))
        .replace("@session_grace_ms@", &millis(SESSION_GRACE))
        .replace("@withdrawal_remembered_ms@", &millis(WITHDRAWAL_REMEMBERED));
    [BEGIN.to_owned(), rest + "\nCOMMIT;\n"]
}

fn millis(span: Duration) -> String {
    span.as_millis().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_placeholder_of_the_script_is_filled_in() {
        let names = TableNames::new("leasehold", "locks").expect("good names");
        assert!(!script(&names).contains('@'));
    }

    #[test]
    fn the_script_is_text_in_any_encoding() {
        let names = TableNames::new("leasehold", "locks").expect("good names");
        assert!(script(&names).is_ascii());
    }

    #[test]
    fn the_last_function_of_the_script_tells_that_all_is_there() {
        let names = TableNames::new("leasehold", "locks").expect("good names");
        let script = script(&names);
        let last = script.rsplit("CREATE OR REPLACE FUNCTION ").next().expect("a function");
        assert!(last.starts_with(&names.format()), "{last}");
    }
}
