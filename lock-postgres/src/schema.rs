//! What the locks need in the database, and under which names.

use std::sync::Arc;

use lock_core::LockError;

/// Postgres cuts identifiers to 63 bytes; the longest suffix of ours is `_advisory_withdrawn_forget`.
const LONGEST_TABLE: usize = 37;
const LONGEST_SCHEMA: usize = 63;

/// The schema and the table of a set of locks. The table's name begins those of all that goes with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    schema: Arc<str>,
    table: Arc<str>,
}

impl Place {
    pub(crate) fn new(schema: &str, table: &str) -> Result<Self, LockError> {
        check("lock_schema", schema, LONGEST_SCHEMA)?;
        check("lock_table", table, LONGEST_TABLE)?;
        Ok(Self { schema: schema.into(), table: table.into() })
    }

    /// Everything that is to be created, as one script.
    pub(crate) fn ddl(&self) -> String {
        let text = include_str!("schema.sql");
        text.replace("@schema@", &self.schema).replace("@table@", &self.table)
    }

    /// One of the functions, as SQL calls it.
    pub(crate) fn function(&self, name: &str) -> String {
        format!("\"{}\".\"{}_v1_{name}\"", self.schema, self.table)
    }

    /// The table of the locks.
    pub(crate) fn table(&self) -> String {
        format!("\"{}\".\"{}\"", self.schema, self.table)
    }

    /// The name space, as the hash of an advisory lock has it.
    pub(crate) fn space(&self) -> String {
        format!("{}.{}", self.schema, self.table)
    }

    /// The table of the same schema that advisory locks have to themselves.
    pub(crate) fn for_advisory_locks(&self) -> Self {
        Self { schema: self.schema.clone(), table: format!("{}_advisory", self.table).into() }
    }
}

fn check(option: &str, name: &str, longest: usize) -> Result<(), LockError> {
    let starts_well = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if starts_well && name.len() <= longest && name.chars().all(good) {
        return Ok(());
    }
    let message = format!(
        "`{option}` is not a good name: it takes a-z, 0-9 and _, no digit first, and at most \
         {longest} characters"
    );
    Err(LockError::Config { message })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c02_identifiers_are_checked_and_quoted() {
        let place = Place::new("leasehold", "locks_2").expect("good names");
        assert_eq!(place.function("acquire"), "\"leasehold\".\"locks_2_v1_acquire\"");
        assert!(!place.ddl().contains('@'));
        for bad in ["", "2a", "A", "a-b", "a\"b", "a b", "a.b", "ä", &"a".repeat(38)] {
            assert!(Place::new("leasehold", bad).is_err(), "{bad:?}");
        }
        for bad in ["", "a;b", "a\"", &"a".repeat(64)] {
            assert!(Place::new(bad, "locks").is_err(), "{bad:?}");
        }
    }
}
