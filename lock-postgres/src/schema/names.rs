//! Names of the locks' objects in the database.

use std::sync::Arc;

use lock_core::LockError;

/// Postgres cuts identifiers to 63 bytes; the longest suffix is `_v1_is_surely_committed`.
const LONGEST_TABLE: usize = 40;
const LONGEST_SCHEMA: usize = 63;

/// Suffixes of a table's companions: no set of locks may take the tables of another for its own.
const COMPANIONS: [&str; 7] =
    ["_queue", "_withdrawn", "_fences", "_grants", "_holders", "_holds", "_runs"];

/// The schema and the table of a set of locks. The names of its companions begin with the table's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableNames {
    pub(super) schema: Arc<str>,
    pub(super) table: Arc<str>,
    /// Role that may own the objects, beside those that are trusted anyway.
    pub(super) owner: Option<Arc<str>>,
}

impl TableNames {
    pub(crate) fn new(schema: &str, table: &str) -> Result<Self, LockError> {
        check("lock_schema", schema, LONGEST_SCHEMA)?;
        check("lock_table", table, LONGEST_TABLE)?;
        if let Some(companion) = COMPANIONS.iter().find(|companion| table.ends_with(**companion)) {
            let message =
                format!("`lock_table` ends in `{companion}`: so do tables that go with another");
            return Err(LockError::Config { message });
        }
        Ok(Self { schema: schema.into(), table: table.into(), owner: None })
    }

    /// Trusts objects of this role too.
    pub(crate) fn owned_by(self, owner: Option<&str>) -> Self {
        Self { owner: owner.map(Into::into), ..self }
    }

    /// Returns the name of a function of the schema, quoted for SQL.
    pub(crate) fn function(&self, name: &str) -> String {
        format!("\"{}\".\"{}_v1_{name}\"", self.schema, self.table)
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
        let names = TableNames::new("leasehold", "locks_2").expect("good names");
        assert_eq!(names.function("acquire"), "\"leasehold\".\"locks_2_v1_acquire\"");
        for bad in ["", "2a", "A", "a-b", "a\"b", "a b", "a.b", "ä", &"a".repeat(41)] {
            assert!(TableNames::new("leasehold", bad).is_err(), "{bad:?}");
        }
        for companion in COMPANIONS {
            let refused = TableNames::new("leasehold", &format!("locks{companion}"));
            assert!(matches!(refused, Err(LockError::Config { .. })), "{refused:?}");
        }
        for bad in ["", "a;b", "a\"", &"a".repeat(64)] {
            assert!(TableNames::new(bad, "locks").is_err(), "{bad:?}");
        }
    }
}
