//! What a client finds in the database when it connects: the format of the schema, and the rights of its user.

use lock_core::LockError;
use sqlx::postgres::PgRow;
use sqlx::{Error, Row};

use super::{FORMAT, TableNames};

/// The schema of the locks, as far as the catalog tells it.
pub(crate) struct Found {
    /// The body of the function that tells the format; `None` if there is no schema, or not all of it.
    format: Option<String>,
    /// The routines that clients call and this user may not.
    missing: Vec<String>,
    user: String,
    schema: String,
    /// What the names of the routines begin with.
    prefix: String,
}

/// Whether the schema is to be made, or brought to our format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Making {
    Needed,
    NotNeeded,
}

impl Found {
    /// The question, as one row. Clients call functions that work with the rights of their owner, procedures, and one
    /// more.
    pub(crate) fn question(names: &TableNames) -> String {
        let (schema, prefix) = (&names.schema, prefix(names));
        format!(
            "SELECT (SELECT p.prosrc FROM pg_catalog.pg_proc p WHERE p.oid = to_regproc('{}')), \
             ARRAY(SELECT p.proname::text FROM pg_catalog.pg_proc p \
             WHERE p.pronamespace = to_regnamespace('\"{schema}\"') \
             AND starts_with(p.proname, '{prefix}') AND (p.prosecdef OR p.prokind = 'p' \
             OR p.proname = '{prefix}now_us') \
             AND NOT has_function_privilege(p.oid, 'EXECUTE') ORDER BY 1), quote_ident(current_user)",
            names.format()
        )
    }

    pub(crate) fn read(names: &TableNames, row: &PgRow) -> Result<Self, Error> {
        Ok(Self {
            format: row.try_get(0)?,
            missing: row.try_get(1)?,
            user: row.try_get(2)?,
            schema: names.schema.to_string(),
            prefix: prefix(names),
        })
    }

    /// Whether the schema is of our format. Another one that we do not know is refused.
    pub(crate) fn making(&self) -> Result<Making, LockError> {
        let Some(body) = &self.format else { return Ok(Making::Needed) };
        match body.trim_start_matches("SELECT ").parse::<i64>() {
            Ok(FORMAT) => Ok(Making::NotNeeded),
            Ok(format) if format < FORMAT => Ok(Making::Needed),
            found => {
                let found = found.map_or_else(|_| "unknown".to_owned(), |found| found.to_string());
                let message = format!(
                    "the schema of the locks is of format {found}, and this client knows format \
                     {FORMAT}: use a newer version of leasehold, or another `lock_schema`"
                );
                Err(LockError::Config { message })
            }
        }
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

    /// Refuses a user who may take locks and not keep them or give them back: each lock would stay for its TTL.
    pub(crate) fn refuse_half_of_the_rights(&self) -> Result<(), LockError> {
        let lacks = |routine: &&str| self.missing.contains(&format!("{}{routine}", self.prefix));
        if lacks(&"acquire") || !GIVE_BACK.iter().any(lacks) {
            return Ok(());
        }
        match self.missing_rights() {
            Some((seen, remedy)) => Err(LockError::Config {
                message: format!("{seen}, and so not release locks: {remedy}"),
            }),
            None => Ok(()),
        }
    }
}

/// What keeps holds and ends them.
const GIVE_BACK: [&str; 5] =
    ["extend", "release", "release_and_tell", "release_together", "withdraw"];

fn prefix(names: &TableNames) -> String {
    format!("{}_v1_", names.table)
}
