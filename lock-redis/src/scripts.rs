//! The server's half of the protocol, and how it is called.

use std::borrow::Cow;
use std::sync::LazyLock;

use redis::{Cmd, Script, ToRedisArgs, cmd};

macro_rules! script {
    ($name:ident, $($part:literal),+) => {
        pub(crate) static $name: LazyLock<Program> =
            LazyLock::new(|| Program::new(Cow::Borrowed(concat!($(include_str!(concat!("scripts/", $part, ".lua"))),+))));
    };
}

script!(ACQUIRE, "common", "acquire");
script!(EXTEND, "common", "extend");
script!(RELEASE, "common", "release");
script!(WITHDRAW, "common", "withdraw");
script!(INSPECT, "common", "inspect");
script!(EVICT, "common", "evict");

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

    /// `write`, run if the fence lets its token pass.
    pub(crate) fn fenced(write: &str) -> Self {
        let (check, end) =
            (include_str!("scripts/fence.lua"), include_str!("scripts/fence_end.lua"));
        Self::new(Cow::Owned([check, write, end].concat()))
    }

    /// The call of a program that the server probably knows.
    pub(crate) fn by_hash(&self, keys: &[String], args: &[impl ToRedisArgs]) -> Cmd {
        call("EVALSHA", &self.hash, keys, args)
    }

    /// The call that also teaches it to the server.
    pub(crate) fn by_text(&self, keys: &[String], args: &[impl ToRedisArgs]) -> Cmd {
        call("EVAL", &self.text, keys, args)
    }
}

fn call(command: &str, program: &str, keys: &[String], args: &[impl ToRedisArgs]) -> Cmd {
    let mut call = cmd(command);
    call.arg(program).arg(keys.len()).arg(keys).arg(args);
    call
}
