//! The objects of locks in the database: tables and functions, as scripts.

mod found;
mod names;
mod routines;

use std::time::Duration;

use lock_core::backend::{UNCLAIMED_GRANT_TTL, WAITER_LIVENESS, WITHDRAWAL_REMEMBERED};

pub(crate) use self::found::{Found, RUN_THE_SCRIPT};
pub(crate) use self::names::TableNames;

/// Format of the tables and functions that this version makes and accepts.
pub(crate) const FORMAT: i64 = 1;

/// Common table expressions that find the reasons why a schema cannot be trusted, as the row `found`.
///
/// The functions work with the rights of their owner, and what their tables run does so too. So nothing of the
/// schema is run before this has found the owners, and that nothing else can run.
const TRUST: &str = include_str!("trust.sql");

/// Relations of the locks, for SQL.
const RELATIONS: &str = "'@table@', '@table@_grants', '@table@_holders', '@table@_queue', '@table@_withdrawn', \
    '@table@_fences', '@table@_runs', '@table@_holds', '@table@_queue_place_seq'";

/// Begins a migration. Migrations run one at a time, and none waits for long.
const BEGIN: &str = "\
-- Leasehold's locks on Postgres. It may be run again, and beside clients at work.
BEGIN ISOLATION LEVEL READ COMMITTED;
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL lock_timeout = '5s';
SET LOCAL statement_timeout = '5s';
DO $$ BEGIN PERFORM pg_advisory_xact_lock(5508217395121431910); END $$;
";

/// Refuses what others made. The script reads no table before the check that follows the tables, and calls no routine.
const CHECK: &str = include_str!("check.sql");

/// Parts of the script, in order: a function stands after the objects that it uses. The format comes last, so
/// that its presence shows that all parts exist. Others may make objects while the script runs.
const PARTS: [&str; 21] = [
    include_str!("begin.sql"),
    CHECK,
    include_str!("later.sql"),
    include_str!("tables.sql"),
    include_str!("table/tables.sql"),
    CHECK,
    include_str!("table/places.sql"),
    include_str!("common.sql"),
    include_str!("fence.sql"),
    include_str!("table/grant.sql"),
    include_str!("table/holders.sql"),
    include_str!("table/hand_over.sql"),
    include_str!("table/extend.sql"),
    include_str!("table/acquire.sql"),
    include_str!("table/release.sql"),
    include_str!("table/admin.sql"),
    include_str!("table/runs.sql"),
    include_str!("table/together.sql"),
    include_str!("rights.sql"),
    include_str!("format.sql"),
    CHECK,
];

/// Returns one script that creates all objects.
pub(crate) fn script(names: &TableNames) -> String {
    migration(names).concat()
}

/// Returns the same script in the two parts that a client sends: the wait for other migrations, and the rest.
pub(crate) fn migration(names: &TableNames) -> [String; 2] {
    let check =
        trust(names, "o.owner = me.maker") + " SELECT array_to_string(f.seen, '; ') FROM found f";
    let rest = PARTS.join("\n").replace("@check@", &check).replace("@relations@", RELATIONS);
    let rest = rest.replace("@schema@", &names.schema).replace("@table@", &names.table);
    // C19, C28: the server keeps the bounds of the contract.
    let rest = rest
        .replace("@format@", &FORMAT.to_string())
        .replace("@waiter_liveness_ms@", &millis(WAITER_LIVENESS))
        .replace("@unclaimed_grant_ttl_ms@", &millis(UNCLAIMED_GRANT_TTL))
        .replace("@withdrawal_remembered_ms@", &millis(WITHDRAWAL_REMEMBERED));
    [BEGIN.to_owned(), rest + "\nCOMMIT;\n"]
}

/// Returns the common table expressions for a condition on the owner `o` of an object, by whom `me` trusts.
fn trust(names: &TableNames, trusted: &str) -> String {
    let parts = PARTS.join("\n");
    let routines: Vec<&str> = routines::of(&parts).map(|routine| routine.name).collect();
    let routines = routines.join(",");
    let text = TRUST.replace("@routines@", &routines).replace("@relations@", RELATIONS);
    let text = text.replace("@schema@", &names.schema).replace("@table@", &names.table);
    text.replace("@trusted@", trusted)
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

    /// P2: a format with other routines under the same names would end the holds of clients at work. Until a format is
    /// published, write its new digest here. Afterwards make another format, whose routines have other names, and keep
    /// these routines for one release.
    #[test]
    fn p2_the_routines_of_a_published_format_stay_as_they_are() {
        let names = TableNames::new("leasehold", "locks").expect("good names");
        let script = script(&names);
        let ours = routines::of(&script).filter(|routine| routine.name.contains("_v1_"));
        let digests: Vec<_> = ours.map(|routine| routine.named_digest()).collect();
        let made = ["CREATE OR REPLACE FUNCTION", "CREATE OR REPLACE PROCEDURE"];
        let made: usize = made.into_iter().map(|made| script.matches(made).count()).sum();
        assert_eq!(digests.len() + 1, made, "each routine but that of the format is compared");
        let digest = <sha2::Sha256 as sha2::Digest>::digest(digests.join(" "));
        let digest = i64::from_be_bytes(digest[..8].try_into().expect("eight bytes"));
        assert_eq!(
            (FORMAT, digest),
            (1, -201_231_805_279_318_613),
            "the routines of format {FORMAT} have changed"
        );
    }

    #[test]
    fn the_last_function_of_the_script_tells_that_all_is_there() {
        let names = TableNames::new("leasehold", "locks").expect("good names");
        let script = script(&names);
        let last = script.rsplit("CREATE OR REPLACE FUNCTION ").next().expect("a function");
        assert!(last.starts_with("\"leasehold\".\"locks_format\""), "{last}");
    }
}
