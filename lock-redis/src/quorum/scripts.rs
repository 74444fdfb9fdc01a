//! The voter's part of the protocol.

use std::sync::LazyLock;
use std::time::Duration;

use lock_core::backend::{WAITER_LIVENESS, WITHDRAWAL_REMEMBERED};

use redis::Cmd;

use crate::scripts::{COUNTER_KEPT, Form, NO_KEYS, Program, Servers};

/// Time for which a woken waiter has the lock to itself.
const WOKEN: Duration = Duration::from_millis(50);

/// Most by which a client's clock may be ahead of a voter's.
const CLOCK_LEAD: Duration = Duration::from_secs(24 * 60 * 60);

macro_rules! script {
    ($name:ident, $($file:literal),+) => {
        pub(super) static $name: LazyLock<Program> = LazyLock::new(|| {
            let (key, voter) =
                (include_str!("../scripts/key.lua"), include_str!("scripts/voter.lua"));
            Program::with_bounds(&[key, voter, $(include_str!($file)),+].concat(), &bounds())
        });
    };
}

script!(VOTE, "scripts/vote.lua");
script!(GIVE_BACK, "scripts/give_back.lua");
script!(EXTEND, "../scripts/keep_counter.lua", "scripts/extend.lua");
script!(EVICT, "scripts/evict.lua");
script!(TELL, "scripts/tell.lua");
script!(LET_IN, "scripts/let_in.lua");

/// Returns calls from which a server learns all programs. Without keys they have no other effect.
pub(super) fn lessons() -> Vec<Cmd> {
    let programs = [&VOTE, &GIVE_BACK, &EXTEND, &EVICT, &TELL, &LET_IN];
    let lesson = |program: &Program| program.call(Form::Text, Servers::One, &NO_KEYS, None::<u64>);
    programs.into_iter().map(|program| lesson(program)).collect()
}

fn bounds() -> [(&'static str, u128); 5] {
    [
        ("@counter_ms@", COUNTER_KEPT.as_millis()),
        ("@liveness_ms@", WAITER_LIVENESS.as_millis()),
        ("@withdrawn_ms@", WITHDRAWAL_REMEMBERED.as_millis()),
        ("@woken_ms@", WOKEN.as_millis()),
        ("@day_us@", CLOCK_LEAD.as_micros()),
    ]
}
