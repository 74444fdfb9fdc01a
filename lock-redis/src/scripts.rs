//! The server's half of the protocol, and how it is called.

use std::borrow::Cow;
use std::sync::LazyLock;
use std::time::Duration;

use lock_core::FencingToken;
use lock_core::backend::{UNCLAIMED_GRANT_TTL, WAITER_LIVENESS, WITHDRAWAL_REMEMBERED};
use redis::{Cmd, Script, ToRedisArgs};

/// What stands for the channel of a waiter that hears nothing, and looks for itself.
pub(crate) const POLLED: &str = "poll";

/// How long a token counter outlasts the last grant of its lock.
const COUNTER_KEPT: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// What a request about one lock with a short name needs no more room than.
const USUAL_ARGUMENTS: usize = 16;
const USUAL_BYTES: usize = 256;

macro_rules! script {
    ($name:ident, $($part:literal),+) => {
        pub(crate) static $name: LazyLock<Program> = LazyLock::new(|| {
            let text = concat!($(include_str!(concat!("scripts/", $part, ".lua"))),+);
            Program::new(Cow::Owned(with_bounds(text)))
        });
    };
}

script!(ACQUIRE, "acquire_free", "holds", "granting", "acquire");
// The common case of an exclusive hold is none of another kind.
script!(ACQUIRE_BESIDE, "holds", "granting", "acquire");
// The same for each of several claims, as a function.
script!(ACQUIRE_WHILE_FREE, "holds", "granting", "acquire_each", "acquire", "acquire_while_free");
// The common case alone, for many requests in one call.
script!(ACQUIRE_TOGETHER, "acquire_together");
script!(EXTEND, "holds", "extend");
script!(RELEASE, "release_unwanted", "holds", "granting", "release");
script!(RELEASE_TOGETHER, "release_together");
script!(RESERVE, "holds", "granting", "reserve");
script!(RELEASE_AFTER, "release_after");
script!(RECORD, "record");
script!(WITHDRAW, "holds", "granting", "withdraw");
script!(INSPECT, "holds", "inspect");
script!(EVICT, "holds", "granting", "evict");

/// The text of a script, in which each bound of the contract stands where the file has its `@name@`.
fn with_bounds(text: &str) -> String {
    let bounds = [
        ("@liveness_us@", WAITER_LIVENESS.as_micros().to_string()),
        ("@unclaimed_ms@", UNCLAIMED_GRANT_TTL.as_millis().to_string()),
        ("@withdrawn_ms@", WITHDRAWAL_REMEMBERED.as_millis().to_string()),
        ("@counter_ms@", COUNTER_KEPT.as_millis().to_string()),
        ("@max_token@", FencingToken::MAX.to_string()),
        ("@polled@", POLLED.to_owned()),
    ];
    bounds.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
}

/// A Lua program, hashed once.
#[derive(Debug)]
pub(crate) struct Program {
    text: Cow<'static, str>,
    hash: String,
}

impl Program {
    fn new(text: Cow<'static, str>) -> Self {
        let hash = Script::new(&text).get_hash().to_owned();
        Self { text, hash }
    }

    /// A program that runs `write` if the fence lets its token pass.
    pub(crate) fn fenced(write: &str) -> Self {
        let (check, end) =
            (include_str!("scripts/fence.lua"), include_str!("scripts/fence_end.lua"));
        Self::new(Cow::Owned([check, write, end].concat()))
    }

    /// By which the server knows the program.
    pub(crate) fn hash(&self) -> &str {
        &self.hash
    }

    /// The call of a program that the server probably knows already.
    pub(crate) fn by_hash(&self, keys: &[impl ToRedisArgs], args: impl ToRedisArgs) -> Cmd {
        call("EVALSHA", &self.hash, keys, args)
    }

    /// The call by which the server also learns the program.
    pub(crate) fn by_text(&self, keys: &[impl ToRedisArgs], args: impl ToRedisArgs) -> Cmd {
        call("EVAL", &self.text, keys, args)
    }
}

fn call(command: &str, program: &str, keys: &[impl ToRedisArgs], args: impl ToRedisArgs) -> Cmd {
    let mut call = Cmd::with_capacity(USUAL_ARGUMENTS, USUAL_BYTES + program.len());
    call.arg(command);
    call.arg(program).arg(keys.len()).arg(keys).arg(args);
    call
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bound_stands_in_the_scripts() {
        for program in [
            &ACQUIRE,
            &ACQUIRE_BESIDE,
            &ACQUIRE_TOGETHER,
            &ACQUIRE_WHILE_FREE,
            &EXTEND,
            &RELEASE,
            &RELEASE_TOGETHER,
            &RESERVE,
            &RELEASE_AFTER,
            &RECORD,
            &WITHDRAW,
            &INSPECT,
            &EVICT,
        ] {
            assert!(!program.text.contains('@'), "{}", program.text);
        }
        for bound in ["= 3000000 ", "= 3000 ", "= 604800000 ", "= 9007199254740991", "'poll'"] {
            assert!(ACQUIRE.text.contains(bound), "{bound}");
        }
        assert!(WITHDRAW.text.contains("'PX', 30000"));
    }
}
