//! State of the database when a client connects: the owners of the schema, its format, its routines, and the rights
//! of the user.

use lock_core::LockError;
use sqlx::postgres::PgRow;
use sqlx::{Error, Row};

use super::{FORMAT, TableNames, routines, script, trust};
use crate::error::refused;
use crate::sql::text_literal;

/// The schema of the locks, as the catalog shows it.
pub(crate) struct Found {
    /// Roles that own something of the schema, and are not trusted.
    strangers: Vec<String>,
    /// Facts for which the schema cannot be trusted: what strangers own, and what leasehold does not make.
    seen: Vec<String>,
    /// Body of the function that returns the format; `None` if the schema is missing or incomplete.
    format: Option<String>,
    /// The routines, each with its digest.
    routines: Vec<String>,
    /// Routines that clients call and this user may not call.
    missing: Vec<String>,
    /// True unless the user lacks the right to use the schema.
    may_use: bool,
    user: String,
    names: TableNames,
}

impl Found {
    /// Returns the question, whose answer is one row, and which calls no routine of the schema. Clients call functions
    /// that work with the rights of their owner, and procedures.
    ///
    /// All superusers are trusted, the connecting role, and the role of the option `owner`. A role that is no
    /// superuser also trusts the owner of the database. To be a member of a role is no trust: up to Postgres 14 each
    /// role can grant itself to others.
    pub(crate) fn question(names: &TableNames) -> String {
        let named = names.owner.as_deref().map_or("NULL".to_owned(), text_literal);
        let trusted = format!(
            "o.owner IN (10, me.session, \
             coalesce((SELECT r.owner FROM role r WHERE r.name = {named}), 10)) \
             OR me.session <> 10 AND o.owner IN (me.maker, me.of_database)"
        );
        let (trust, digest, prefix) = (trust(names, &trusted), routines::DIGEST, prefix(names));
        format!(
            "{trust} SELECT f.strangers, f.seen, \
             (SELECT p.prosrc FROM routine p WHERE p.proname = '{table}_format' LIMIT 1), \
             ARRAY(SELECT p.proname || ':' || {digest} FROM routine p JOIN pg_language l ON l.oid = p.prolang), \
             ARRAY(SELECT p.proname::text FROM routine p WHERE starts_with(p.proname::text, '{prefix}') \
             AND (p.prosecdef OR p.prokind = 'p') AND NOT has_function_privilege(p.oid, 'EXECUTE') ORDER BY 1), \
             NOT EXISTS (SELECT FROM place n WHERE NOT has_schema_privilege(n.oid, 'USAGE')), \
             quote_ident(current_user) FROM found f",
            table = names.table
        )
    }

    pub(crate) fn read(names: &TableNames, row: &PgRow) -> Result<Self, Error> {
        Ok(Self {
            strangers: row.try_get(0)?,
            seen: row.try_get(1)?,
            format: row.try_get(2)?,
            routines: row.try_get(3)?,
            missing: row.try_get(4)?,
            may_use: row.try_get(5)?,
            user: row.try_get(6)?,
            names: names.clone(),
        })
    }

    /// Returns true if the schema can be used as it is, and false if it must be made or changed.
    ///
    /// # Errors
    /// Refuses a schema that cannot be trusted, an unknown format, changed routines, and a user who may acquire but not
    /// extend or release: each lock would stay held for its TTL.
    pub(crate) fn is_usable(&self) -> Result<bool, LockError> {
        if let Some((seen, remedy)) = self.distrust() {
            return Err(refused(format!("{seen}: {remedy}")));
        }
        if !self.may_use {
            let (user, schema) = (&self.user, &self.names.schema);
            let grant = self.grant();
            return Err(refused(format!(
                "the user {user} may not use the schema {schema}: {grant}"
            )));
        }
        let Some(body) = &self.format else { return Ok(false) };
        let changed = self.changed();
        match body.trim_start_matches("SELECT ").parse::<i64>() {
            Ok(format) if format < FORMAT => return Ok(false),
            Ok(FORMAT) => {}
            // P2: the next format keeps the routines of this one as they are, and with them the locks.
            Ok(format) if format == FORMAT + 1 && changed.is_none() => {}
            found => {
                let found = found.map_or_else(|_| "unknown".to_owned(), |found| found.to_string());
                return Err(refused(format!(
                    "the schema of the locks is of format {found}, and this client knows format \
                     {FORMAT}: use a newer version of leasehold, or another `lock_schema`"
                )));
            }
        }
        if let Some(seen) = changed {
            return Err(refused(format!("{seen}: {RUN_THE_SCRIPT}")));
        }
        self.refuse_who_cannot_give_back().map(|()| true)
    }

    /// Returns the reason why the schema cannot be trusted, and the remedy.
    pub(crate) fn distrust(&self) -> Option<(String, String)> {
        let schema = &self.names.schema;
        if self.seen.is_empty() {
            return None;
        }
        let seen =
            format!("the schema {schema} cannot be trusted with locks: {}", self.seen.join("; "));
        let drop = format!(
            "drop that (DROP SCHEMA {schema} CASCADE if nothing else is in the schema), and {RUN_THE_SCRIPT}"
        );
        let remedy = match self.strangers.first() {
            Some(stranger) => {
                format!(
                    "{drop}; or, if {stranger} may have the rights of this client, add \
                     `lock_owner={stranger}` to the URL"
                )
            }
            None => format!("undo that; or {drop}"),
        };
        Some((seen, remedy))
    }

    /// Returns the routines that are missing or changed since the script made them.
    pub(crate) fn changed(&self) -> Option<String> {
        let (script, prefix) = (script(&self.names), prefix(&self.names));
        let ours = routines::of(&script).filter(|routine| routine.name.starts_with(&prefix));
        let changed: Vec<_> = ours
            .filter(|routine| !self.routines.contains(&routine.named_digest()))
            .map(|routine| routine.name)
            .collect();
        let changed = changed.join(", ");
        (!changed.is_empty())
            .then(|| format!("missing, or not as the script of this version makes it: {changed}"))
    }

    /// Returns the missing rights, and the statement that grants them.
    pub(crate) fn missing_rights(&self) -> Option<(String, String)> {
        if self.missing.is_empty() {
            return None;
        }
        let seen = format!("the user {} may not call {}", self.user, self.missing.join(", "));
        Some((seen, self.grant()))
    }

    /// Returns the statements that let the user in.
    fn grant(&self) -> String {
        let (user, schema) = (&self.user, &self.names.schema);
        format!(
            "GRANT USAGE ON SCHEMA {schema} TO {user}; \
             GRANT EXECUTE ON ALL ROUTINES IN SCHEMA {schema} TO {user}"
        )
    }

    fn refuse_who_cannot_give_back(&self) -> Result<(), LockError> {
        let prefix = prefix(&self.names);
        let lacks = |routine: &&str| self.missing.contains(&format!("{prefix}{routine}"));
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
