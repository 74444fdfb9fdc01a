//! The client's view of the database when it connects: the format of the schema, its routines, and the rights of its
//! user.

use lock_core::LockError;
use sqlx::postgres::PgRow;
use sqlx::{Error, Row};

use super::{DIGEST, FORMAT, TableNames};
use crate::error::refused;

/// The schema of the locks, as far as the catalog tells it.
pub(crate) struct Found {
    /// The body of the function that tells the format; `None` if there is no schema, or not all of it.
    format: Option<String>,
    /// The routines, each with its digest.
    routines: Vec<String>,
    /// The routines that clients call and this user may not.
    missing: Vec<String>,
    user: String,
    schema: String,
    /// Start of the routines' names.
    prefix: String,
}

impl Found {
    /// The question, as one row. Clients call functions that work with the rights of their owner, and procedures.
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

    /// Returns true if the schema is of our format, and false if it must be made or changed. A format that we do not
    /// know is refused.
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

    /// The routines that are missing, or are not as the script made them.
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

    /// The rights that are missing, and the statement that grants them.
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

    /// Refuses routines that are not as they were made, and a user who may take locks and not keep them or give them
    /// back: each lock would stay for its TTL.
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

/// The remedy for a schema that is not whole.
pub(crate) const RUN_THE_SCRIPT: &str =
    "run what `leasehold schema postgres` prints, as the owner of the schema";

/// Routines that keep holds and end them.
const GIVE_BACK: [&str; 5] =
    ["extend", "release", "release_and_tell", "release_together", "withdraw"];

fn prefix(names: &TableNames) -> String {
    format!("{}_v1_", names.table)
}
