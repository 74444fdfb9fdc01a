//! Calls as text.
//!
//! Requests go by the simple protocol: one round trip, and no prepared statement, which the driver
//! would parse in one transaction and run in the next, so that a pooler may give the two to different
//! sessions. Texts are therefore part of the statement, and are written in hexadecimal digits alone:
//! whatever a name holds, it is data.

use std::fmt::Write;

use lock_core::OwnerId;
use sha2::{Digest, Sha256};

/// A call of a function: `SELECT * FROM function(…)`.
pub(crate) struct Call(String);

impl Call {
    pub(crate) fn new(function: &str) -> Self {
        Self::of_columns("*", function)
    }

    /// A call that selects `columns`, which SQL may compute from those of the answer.
    pub(crate) fn of_columns(columns: &str, function: &str) -> Self {
        Self(format!("SELECT {columns} FROM {function}("))
    }

    pub(crate) fn text(self, text: &str) -> Self {
        self.raw(&text_literal(text))
    }

    pub(crate) fn owner(self, owner: OwnerId) -> Self {
        self.raw(&owner_literal(owner))
    }

    pub(crate) fn number(self, number: i64) -> Self {
        self.raw(&format!("({number})::bigint"))
    }

    pub(crate) fn optional(self, number: Option<i64>) -> Self {
        match number {
            Some(number) => self.number(number),
            None => self.raw("NULL"),
        }
    }

    pub(crate) fn flag(self, flag: Flag) -> Self {
        self.raw(if flag.0 { "true" } else { "false" })
    }

    pub(crate) fn array(self, of: &str, items: impl Iterator<Item = String>) -> Self {
        let items: Vec<String> = items.collect();
        self.raw(&format!("ARRAY[{}]::{of}[]", items.join(",")))
    }

    pub(crate) fn end(mut self) -> String {
        self.0.push(')');
        self.0
    }

    fn raw(mut self, argument: &str) -> Self {
        if !self.0.ends_with('(') {
            self.0.push(',');
        }
        self.0.push_str(argument);
        self
    }
}

/// A truth value among the arguments.
pub(crate) struct Flag(pub(crate) bool);

pub(crate) fn text_literal(text: &str) -> String {
    // C2: nothing in a text can end the literal.
    let mut literal = String::with_capacity(text.len() * 2 + 40);
    literal.push_str("convert_from(decode('");
    for byte in text.bytes() {
        // Writing to a string cannot fail.
        let _ = write!(literal, "{byte:02x}");
    }
    literal.push_str("','hex'),'UTF8')");
    literal
}

pub(crate) fn owner_literal(owner: OwnerId) -> String {
    format!("'{}'::uuid", owner.expose())
}

/// C45: the server's time of a grant in µs, read from its `token`; null if the token does not tell.
///
/// A token is the time of its grant, unless the lock's last token was not below that time, as after the
/// server's clock was set back. Such a token is ahead of the clock, which is `now`.
pub(crate) fn granted_at(token: &str, now: &str) -> String {
    format!("CASE WHEN {token} <= {now} THEN {token} END")
}

/// The key of the advisory lock that stands for something, as the function `key` has it.
pub(crate) fn key(something: &[u8]) -> i64 {
    let mut first = [0; 8];
    first.copy_from_slice(&Sha256::digest(something)[..8]);
    i64::from_be_bytes(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c02_texts_are_digits() {
        let call = Call::new("f").text("'; DROP TABLE x; --").number(-1).optional(None);
        let call = call.flag(Flag(true)).array("text", ["1".into(), "2".into()].into_iter()).end();
        assert_eq!(
            call,
            "SELECT * FROM f(convert_from(decode('273b2044524f50205441424c4520783b202d2d','hex'),\
             'UTF8'),(-1)::bigint,NULL,true,ARRAY[1,2]::text[])"
        );
    }
}
