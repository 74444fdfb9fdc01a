//! Calls of the functions in the database, in two forms.
//!
//! Over a connection with its own session a call is a prepared statement, whose values go apart from its text.
//! The server shows the text in `pg_stat_activity` and writes it to its log. So the text has no owner id (C3).
//!
//! A pooler that gives each transaction another session may prepare a statement in one session and run it in
//! another. There the values are part of the text, as hexadecimal digits: whatever a name holds, it is data.

use lock_core::OwnerId;
use sqlx::postgres::{PgArguments, Postgres};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, query};

/// A call of a function, `SELECT … FROM function(…)`, or of a procedure, `CALL procedure(…)`.
pub(crate) struct Call {
    /// The text before the arguments.
    head: String,
    arguments: Vec<Argument>,
    /// True if it may commit before its end.
    commits: bool,
}

/// A value among the arguments.
enum Argument {
    Text(Option<String>),
    Owner(OwnerId),
    Number(Option<i64>),
    Flag(bool),
    Texts(Vec<String>),
    Owners(Vec<OwnerId>),
    Numbers(Vec<i64>),
}

impl Call {
    pub(crate) fn new(function: String) -> Self {
        Self::of_columns("*", &function)
    }

    /// Creates a call that selects `columns`, which may be expressions over the columns of the answer.
    pub(crate) fn of_columns(columns: &str, function: &str) -> Self {
        let head = format!("SELECT {columns} FROM {function}");
        Self { head, arguments: Vec::new(), commits: false }
    }

    /// Creates a call of a procedure, which may commit during its work.
    pub(crate) fn of_procedure(procedure: &str) -> Self {
        Self { head: format!("CALL {procedure}"), arguments: Vec::new(), commits: true }
    }

    /// Returns true if it may commit before its end, so that a later error undoes nothing.
    pub(crate) fn commits(&self) -> bool {
        self.commits
    }

    pub(crate) fn text(self, text: &str) -> Self {
        self.optional_text(Some(text))
    }

    pub(crate) fn optional_text(self, text: Option<&str>) -> Self {
        self.with(Argument::Text(text.map(str::to_owned)))
    }

    pub(crate) fn owner(self, owner: OwnerId) -> Self {
        self.with(Argument::Owner(owner))
    }

    pub(crate) fn number(self, number: i64) -> Self {
        self.with(Argument::Number(Some(number)))
    }

    pub(crate) fn optional(self, number: Option<i64>) -> Self {
        self.with(Argument::Number(number))
    }

    pub(crate) fn flag(self, flag: bool) -> Self {
        self.with(Argument::Flag(flag))
    }

    pub(crate) fn texts<'a>(self, texts: impl Iterator<Item = &'a str>) -> Self {
        self.with(Argument::Texts(texts.map(str::to_owned).collect()))
    }

    pub(crate) fn owners(self, owners: impl Iterator<Item = OwnerId>) -> Self {
        self.with(Argument::Owners(owners.collect()))
    }

    pub(crate) fn numbers(self, numbers: impl Iterator<Item = i64>) -> Self {
        self.with(Argument::Numbers(numbers.collect()))
    }

    fn with(mut self, argument: Argument) -> Self {
        self.arguments.push(argument);
        self
    }

    /// Returns the call with its values in its text.
    pub(crate) fn as_text(&self) -> String {
        self.with_arguments(|_, argument| argument.literal())
    }

    /// Returns the call as a prepared statement, with its values apart from its text.
    pub(crate) fn as_query(&self) -> Query<'_, Postgres, PgArguments> {
        let text = self.with_arguments(|at, argument| format!("${}{}", at + 1, argument.cast()));
        let arguments = self.arguments.iter();
        arguments.fold(query(AssertSqlSafe(text)), |query, argument| argument.bind(query))
    }

    fn with_arguments(&self, written: impl Fn(usize, &Argument) -> String) -> String {
        let written = |(at, argument)| written(at, argument);
        let arguments: Vec<String> = self.arguments.iter().enumerate().map(written).collect();
        format!("{}({})", self.head, arguments.join(","))
    }
}

impl Argument {
    /// Returns the type by its qualified name, which no object of another schema can replace.
    fn cast(&self) -> &'static str {
        match self {
            Self::Text(_) => "::pg_catalog.text",
            Self::Owner(_) => "::pg_catalog.uuid",
            Self::Number(_) => "::pg_catalog.int8",
            Self::Flag(_) => "::pg_catalog.bool",
            Self::Texts(_) => "::pg_catalog.text[]",
            Self::Owners(_) => "::pg_catalog.uuid[]",
            Self::Numbers(_) => "::pg_catalog.int8[]",
        }
    }

    fn literal(&self) -> String {
        let array = |items: Vec<String>| format!("ARRAY[{}]", items.join(","));
        let value = match self {
            Self::Text(Some(text)) => text_literal(text),
            Self::Owner(owner) => format!("'{}'", owner.expose()),
            Self::Number(Some(number)) => format!("({number})"),
            Self::Text(None) | Self::Number(None) => "NULL".to_owned(),
            Self::Flag(flag) => flag.to_string(),
            Self::Texts(texts) => array(texts.iter().map(|text| text_literal(text)).collect()),
            Self::Owners(owners) => {
                array(owners.iter().map(|owner| format!("'{}'", owner.expose())).collect())
            }
            Self::Numbers(numbers) => array(numbers.iter().map(i64::to_string).collect()),
        };
        value + self.cast()
    }

    fn bind<'q>(
        &self,
        query: Query<'q, Postgres, PgArguments>,
    ) -> Query<'q, Postgres, PgArguments> {
        match self {
            Self::Text(text) => query.bind(text.clone()),
            Self::Owner(owner) => query.bind(owner.expose()),
            Self::Number(number) => query.bind(*number),
            Self::Flag(flag) => query.bind(*flag),
            Self::Texts(texts) => query.bind(texts.clone()),
            Self::Owners(owners) => {
                query.bind(owners.iter().map(OwnerId::expose).collect::<Vec<_>>())
            }
            Self::Numbers(numbers) => query.bind(numbers.clone()),
        }
    }
}

pub(crate) fn text_literal(text: &str) -> String {
    // C2: no character of a text can end the literal.
    let digits = hex::encode(text);
    format!("pg_catalog.convert_from(pg_catalog.decode('{digits}','hex'),'UTF8')")
}

#[cfg(test)]
mod tests {
    use sqlx::Execute;

    use super::*;

    fn call() -> Call {
        let call = Call::new("f".to_owned()).text("'; DROP TABLE x; --").number(-1).optional(None);
        call.flag(true).numbers([1, 2].into_iter())
    }

    #[test]
    fn c02_texts_are_digits() {
        assert_eq!(
            call().as_text().replace("pg_catalog.", ""),
            "SELECT * FROM f(convert_from(decode('273b2044524f50205441424c4520783b202d2d','hex'),\
             'UTF8')::text,(-1)::int8,NULL::int8,true::bool,ARRAY[1,2]::int8[])"
        );
    }

    #[test]
    fn c03_a_prepared_call_shows_no_value() {
        let call = call();
        assert_eq!(
            call.as_query().sql().as_str().replace("pg_catalog.", ""),
            "SELECT * FROM f($1::text,$2::int8,$3::int8,$4::bool,$5::int8[])"
        );
    }
}
