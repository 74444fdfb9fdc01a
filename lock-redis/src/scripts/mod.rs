//! The server's part of the protocol, and its calls.

use std::sync::LazyLock;
use std::time::Duration;

use lock_core::FencingToken;
use lock_core::backend::{
    FALLBACK_POLL, UNCLAIMED_GRANT_TTL, WAITER_LIVENESS, WITHDRAWAL_REMEMBERED,
};
use redis::{Cmd, Script, ToRedisArgs};

/// Channel of a waiter that receives no messages, and polls.
pub(crate) const POLLED: &str = "poll";

/// Time for which a token counter outlasts the last grant of its lock and the time of its token. A renewal sets it anew
/// once a day.
pub(crate) const COUNTER_KEPT: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Keys of a script that names none.
pub(crate) const NO_KEYS: [&str; 0] = [];

/// Number of arguments that is enough for a request about one lock with a short name.
const USUAL_ARGUMENTS: usize = 16;
const USUAL_BYTES: usize = 256;

macro_rules! script {
    ($name:ident, $($part:literal),+) => {
        pub(crate) static $name: LazyLock<Program> = LazyLock::new(|| {
            let text = concat!($(include_str!(concat!($part, ".lua"))),+);
            Program::new(&with_bounds(text))
        });
    };
}

script!(
    ACQUIRE, "clock", "counted", "acquire_free", "key", "waiting", "acquire_busy", "holds",
    "granting", "acquire"
);
// The common case, an exclusive hold, is left out here.
script!(ACQUIRE_BESIDE, "clock", "key", "waiting", "acquire_busy", "holds", "granting", "acquire");
// This script handles only the common case, for many requests in one call.
script!(ACQUIRE_TOGETHER, "clock", "key", "acquire_together");
script!(EXTEND, "key", "holds", "keep_counter", "extend");
// Extends holds of several slots of a cluster.
script!(EXTEND_ACROSS_SLOTS, "key", "holds", "keep_counter", "extend_across_slots");
script!(
    RELEASE, "release_unwanted", "clock", "key", "counted", "waiting", "release_exclusive",
    "holds", "granting", "release"
);
script!(RELEASE_TOGETHER, "release_together");
script!(RESERVE, "key", "waiting", "holds", "granting", "reserve");
script!(RECORD, "record");
script!(WITHDRAW, "key", "waiting", "holds", "granting", "withdraw");
script!(INSPECT, "key", "holds", "inspect");
script!(EVICT, "key", "waiting", "holds", "granting", "evict");
script!(TRY_RIGHTS, "try_rights");

/// Returns the text of a script, with each bound of the contract in place of its `@name@`.
fn with_bounds(text: &str) -> String {
    let bounds = [
        ("@liveness_us@", WAITER_LIVENESS.as_micros().to_string()),
        ("@queue_kept_ms@", (WAITER_LIVENESS + FALLBACK_POLL).as_millis().to_string()),
        ("@queue_ms@", (2 * WAITER_LIVENESS).as_millis().to_string()),
        ("@unclaimed_ms@", UNCLAIMED_GRANT_TTL.as_millis().to_string()),
        ("@withdrawn_ms@", WITHDRAWAL_REMEMBERED.as_millis().to_string()),
        ("@counter_ms@", COUNTER_KEPT.as_millis().to_string()),
        ("@max_token@", FencingToken::MAX.to_string()),
        ("@polled@", POLLED.to_owned()),
    ];
    bounds.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
}

/// Form in which a server receives the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// By its hash: the server probably knows it already.
    Hash,
    /// By its text, from which the server learns it.
    Text,
}

/// Number of servers with locks. A script runs on one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Servers {
    /// One server with all locks. Another may replace it.
    One,
    /// Several servers, which forward messages to each other (C28). Locks move between them.
    Spread,
}

/// A Lua program, hashed once.
#[derive(Debug)]
pub(crate) struct Program {
    of_one: Text,
    /// The text for locks on several servers, if it differs.
    of_spread: Option<Text>,
}

#[derive(Debug)]
struct Text {
    text: String,
    hash: String,
}

impl Text {
    fn new(text: String) -> Self {
        let hash = Script::new(&text).get_hash().to_owned();
        Self { text, hash }
    }
}

impl Program {
    fn new(text: &str) -> Self {
        let with = |spread| Text::new(text.replace("@spread@", spread));
        Self { of_one: with("false"), of_spread: text.contains("@spread@").then(|| with("true")) }
    }

    /// Makes a program from a text, with each bound in place of its name.
    #[cfg(feature = "quorum")]
    pub(crate) fn with_bounds(text: &str, bounds: &[(&str, u128)]) -> Self {
        let put =
            |text: String, (name, value): &(&str, u128)| text.replace(name, &value.to_string());
        Self::new(&bounds.iter().fold(text.to_owned(), put))
    }

    /// Makes a program that runs `write` if the fence accepts its token.
    pub(crate) fn fenced(write: &str) -> Self {
        let (check, end) = (include_str!("fence.lua"), include_str!("fence_end.lua"));
        Self { of_one: Text::new([check, write, end].concat()), of_spread: None }
    }

    /// Returns the call of the program.
    pub(crate) fn call(
        &self,
        form: Form,
        servers: Servers,
        keys: &[impl ToRedisArgs],
        args: impl ToRedisArgs,
    ) -> Cmd {
        let of_spread = self.of_spread.as_ref().filter(|_| servers == Servers::Spread);
        let Text { text, hash } = of_spread.unwrap_or(&self.of_one);
        match form {
            Form::Hash => call("EVALSHA", hash, keys, args),
            Form::Text => call("EVAL", text, keys, args),
        }
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
            &ACQUIRE, &ACQUIRE_BESIDE, &ACQUIRE_TOGETHER, &EXTEND, &EXTEND_ACROSS_SLOTS, &RELEASE,
            &RELEASE_TOGETHER, &RESERVE, &RECORD, &WITHDRAW, &INSPECT, &EVICT, &TRY_RIGHTS,
        ] {
            for Text { text, .. } in [&program.of_one].into_iter().chain(&program.of_spread) {
                assert!(!text.contains('@'), "{text}");
            }
        }
        for bound in
            ["= 3000000 ", "'3000'", "'6000'", "'604800000'", "= 9007199254740991", "'poll'"]
        {
            assert!(ACQUIRE.of_one.text.contains(bound), "{bound}");
        }
        assert!(WITHDRAW.of_one.text.contains("'PX', '30000'"));
    }
}
