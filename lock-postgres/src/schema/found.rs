//! State of the database when a client connects: the format of the schema, its routines, and the rights of the
//! user.

use lock_core::LockError;
use sqlx::postgres::PgRow;
use sqlx::{Error, Row};

use super::{DIGEST, FORMAT, TableNames};
use crate::error::refused;

/// The schema of the locks, as the catalog shows it.
pub(crate) struct Found {
    /// Body of the function that returns the format; `None` if the schema is missing or incomplete.
    format: Option<String>,
    /// The routines, each with its digest.
    routines: Vec<String>,
    /// Routines that clients call and this user may not call.
    missing: Vec<String>,
    user: String,
    schema: String,
    /// Start of the routines' names.
    prefix: String,
}

impl Found {
    /// Returns the question, whose answer is one row. Clients call functions that work with the rights of their
    /// owner, and procedures.
    pub(crate) fn question(names: &TableNames) -> String {
        let (schema, prefix) = (&names.schema, prefix(names));
        let ours = format!(
            "FROM pg_catalog.pg_proc p WHERE p.pronamespace = to_regnamespace('\"{schema}\"') \
             AND starts_with(p.proname, '{prefix}')"
        );
        format!(
            "SELECT (SELECT p.prosrc FROM pg_catalog.pg_proc p WHERE p.oid = to_regproc('{}')), \
             ARRAY(SELECT p.proname || ':' || {DIGEST} {ours}), \
             ARRAY(SELECT p.proname::text {ours} AND (p.prosecdef OR p.prokind = 'p') \
             AND NOT has_function_privilege(p.oid, 'EXECUTE') ORDER BY 1), quote_ident(current_user)",
            names.format()
        )
    }

    pub(crate) fn read(names: &TableNames, row: &PgRow) -> Result<Self, Error> {
        Ok(Self {
            format: row.try_get(0)?,
            routines: row.try_get(1)?,
            missing: row.try_get(2)?,
            user: row.try_get(3)?,
            schema: names.schema.to_string(),
            prefix: prefix(names),
        })
    }

    /// Returns true if the schema has this version's format, and false if it must be made or changed.
    ///
    /// # Errors
    /// An unknown format is refused.
    pub(crate) fn is_ours(&self) -> Result<bool, LockError> {
        let Some(body) = &self.format else { return Ok(false) };
        let format = body.split("/*").next().unwrap_or_default();
        match format.trim_start_matches("SELECT ").trim().parse::<i64>() {
            Ok(format) if format <= FORMAT => Ok(format == FORMAT),
            found => {
                let found = found.map_or_else(|_| "unknown".to_owned(), |found| found.to_string());
                Err(refused(format!(
                    "the schema of the locks is of format {found}, and this client knows format \
                     {FORMAT}: use a newer version of leasehold, or another `lock_schema`"
                )))
            }
        }
    }

    /// Returns the routines that are missing or changed since the script made them.
    pub(crate) fn changed(&self) -> Option<String> {
        let made = self.format.iter().flat_map(|body| body.split_whitespace());
        let made = made.filter_map(|made| Some((made, made.split_once(':')?.0)));
        let changed: Vec<_> = made
            .filter(|(made, _)| !self.routines.iter().any(|routine| routine == made))
            .map(|(_, routine)| routine)
            .collect();
        let changed = changed.join(", ");
        (!changed.is_empty())
            .then(|| format!("missing, or not as the script of the schema made it: {changed}"))
    }

    /// Returns the missing rights, and the statement that grants them.
    pub(crate) fn missing_rights(&self) -> Option<(String, String)> {
        if self.missing.is_empty() {
            return None;
        }
        let (user, schema) = (&self.user, &self.schema);
        let seen = format!("the user {user} may not call {}", self.missing.join(", "));
        let remedy = format!(
            "GRANT USAGE ON SCHEMA {schema} TO {user}; \
             GRANT EXECUTE ON ALL ROUTINES IN SCHEMA {schema} TO {user}"
        );
        Some((seen, remedy))
    }

    /// Refuses changed routines. Refuses a user who may acquire but not extend or release: each lock would stay
    /// held for its TTL.
    pub(crate) fn refuse_what_is_not_whole(&self) -> Result<(), LockError> {
        if let Some(seen) = self.changed() {
            return Err(refused(format!("{seen}: {RUN_THE_SCRIPT}")));
        }
        let lacks = |routine: &&str| self.missing.contains(&format!("{}{routine}", self.prefix));
        if lacks(&"acquire") || !GIVE_BACK.iter().any(lacks) {
            return Ok(());
        }
        match self.missing_rights() {
            Some((seen, remedy)) => {
                Err(refused(format!("{seen}, and so not release locks: {remedy}")))
            }
            None => Ok(()),
        }
    }
}

/// Remedy for an incomplete schema.
pub(crate) const RUN_THE_SCRIPT: &str =
    "run the output of `leasehold schema postgres`, as the owner of the schema";

/// Routines that extend holds and end them.
const GIVE_BACK: [&str; 5] =
    ["extend", "release", "release_and_tell", "release_together", "withdraw"];

fn prefix(names: &TableNames) -> String {
    format!("{}_v1_", names.table)
}
