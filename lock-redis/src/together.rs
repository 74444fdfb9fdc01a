//! Requests of many callers that go to the server as one.
//!
//! To call a script costs the server several times what the commands in it cost. So where many callers ask the
//! same of different locks at the same time, one call asks for all of them. Those that are the common case are
//! carried out, and each has an answer of its own. The others are left as they are, and go alone.
//!
//! ```text
//!   acquire a ──┐                                      ┌──▶ a: its token
//!   acquire b ──┼──▶ one call for a, b, c ──▶ server ──┼──▶ b: left ──▶ acquire b
//!   acquire c ──┘                                      └──▶ c: its token
//! ```
//!
//! If the call fails as a whole, each request goes alone, and succeeds or fails by itself. A repeat finds what
//! the call did before it failed (C16).

use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redis::{Arg, Cmd, ErrorKind, ServerErrorKind, Value};

use crate::scripts::{
    ACQUIRE, ACQUIRE_TOGETHER, Form, Program, RELEASE, RELEASE_TOGETHER, Servers,
};

/// After how long a server that refused a call for many locks is sent the next one.
const REFUSAL_REMEMBERED: Duration = Duration::from_secs(1);

/// How calls of a program for one lock become one call of another program for many. A place is that of an
/// argument in a call for one lock, where the name of the command has place 0.
struct Joining {
    for_one: &'static LazyLock<Program>,
    for_many: &'static LazyLock<Program>,
    /// The keys: the first of these of each lock in turn, then the second of each.
    keys: [&'static [usize]; 2],
    /// What must be the same for all.
    shared: &'static [usize],
    /// What any of them may say for all.
    any: &'static [usize],
    /// What each lock has for itself.
    own: usize,
}

static JOININGS: [Joining; 2] = [
    Joining {
        for_one: &ACQUIRE,
        for_many: &ACQUIRE_TOGETHER,
        keys: [&[3, 5, 7], &[4]],
        shared: &[9, 10],
        any: &[12],
        own: 8,
    },
    Joining {
        for_one: &RELEASE,
        for_many: &RELEASE_TOGETHER,
        keys: [&[3], &[5]],
        shared: &[],
        any: &[],
        own: 7,
    },
];

/// The place of the program in a call.
const PROGRAM: usize = 1;

/// Which of the joinings a command has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JoiningId(usize);

impl JoiningId {
    /// The joining of a call for one lock; `None` if the command goes alone.
    pub(crate) fn of(command: &Cmd) -> Option<Self> {
        let program = argument(command, PROGRAM);
        JOININGS.iter().position(|joining| joining.for_one.hash().as_bytes() == program).map(Self)
    }

    /// Whether two commands of this joining go in one call.
    pub(crate) fn joins(self, one: &Cmd, other: &Cmd) -> bool {
        let mut shared = self.joining().shared.iter();
        shared.all(|place| argument(one, *place) == argument(other, *place))
    }

    fn joining(self) -> &'static Joining {
        &JOININGS[self.0]
    }
}

/// How one server is asked for many locks at once.
#[derive(Default)]
pub(crate) struct Together {
    calls: Mutex<[Call; JOININGS.len()]>,
}

/// How a program for many locks is called.
#[derive(Clone, Copy, Default)]
enum Call {
    /// So that the server learns it.
    #[default]
    ByText,
    ByHash,
    /// The server refused.
    NotBefore(Instant),
}

impl Together {
    /// Whether calls of this joining are made now.
    pub(crate) fn is_accepted(&self, joining: JoiningId) -> bool {
        !matches!(self.calls()[joining.0], Call::NotBefore(then) if Instant::now() < then)
    }

    /// One call for all that `commands` ask for.
    pub(crate) fn call(&self, joining: JoiningId, commands: &[&Cmd]) -> Cmd {
        let Joining { for_many, keys: places, shared, any, own, .. } = joining.joining();
        let of_each = |places: &'static [usize]| {
            commands.iter().flat_map(|command| places.iter().map(|place| argument(command, *place)))
        };
        let keys: Vec<&[u8]> = places.iter().flat_map(|places| of_each(places)).collect();
        let of_all = shared.iter().chain(*any);
        let of_all = of_all.filter_map(|place| Some(argument(commands.first()?, *place)));
        let own = commands.iter().map(|command| argument(command, *own));
        let arguments: Vec<&[u8]> = of_all.chain(own).collect();
        match self.calls()[joining.0] {
            Call::ByHash => for_many.call(Form::Hash, Servers::One, &keys, arguments),
            Call::ByText | Call::NotBefore(_) => {
                for_many.call(Form::Text, Servers::One, &keys, arguments)
            }
        }
    }

    /// The answers to a call for `count` locks; `None` for each that is left.
    pub(crate) fn answers(
        &self,
        joining: JoiningId,
        count: usize,
        reply: Value,
    ) -> Vec<Option<Value>> {
        let (call, answers) = match reply.extract_error() {
            Ok(Value::Array(answers)) if answers.len() == count => (Call::ByHash, answers),
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                (Call::ByText, Vec::new())
            }
            _ => (Call::NotBefore(Instant::now() + REFUSAL_REMEMBERED), Vec::new()),
        };
        self.calls()[joining.0] = call;
        let mut answers = answers.into_iter();
        let next = || answers.next().filter(|answer| *answer != Value::Nil);
        std::iter::repeat_with(next).take(count).collect()
    }

    fn calls(&self) -> MutexGuard<'_, [Call; JOININGS.len()]> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An argument of a command; empty if it has none there.
fn argument(command: &Cmd, place: usize) -> &[u8] {
    match command.args_iter().nth(place) {
        Some(Arg::Simple(argument)) => argument,
        Some(_) | None => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Keys;
    use crate::scripts::WITHDRAW;
    use lock_core::LockName;

    fn acquire(name: &str, owner: &str, ttl: u64) -> Cmd {
        let name = LockName::new(name).expect("a name");
        let arguments = (owner, ttl, "a label", "a channel", 1);
        ACQUIRE.call(Form::Hash, Servers::One, &Keys::new(&name).claiming(owner), arguments)
    }

    fn release(name: &str, owner: &str) -> Cmd {
        let name = LockName::new(name).expect("a name");
        RELEASE.call(Form::Hash, Servers::One, &Keys::new(&name).granting(), (owner, 1))
    }

    fn words(command: &Cmd) -> Vec<String> {
        let words = (0..command.args_iter().len()).map(|place| argument(command, place));
        words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
    }

    #[test]
    fn acquisitions_are_one_call() {
        let (together, commands) =
            (Together::default(), [acquire("a", "me", 10), acquire("b", "you", 10)]);
        let joining = JoiningId::of(&commands[0]).expect("a joining");
        let call = words(&together.call(joining, &commands.each_ref()));
        let keys =
            ["8", "a", "{a}:queue", "{a}:withdrawn:me", "b", "{b}:queue", "{b}:withdrawn:you"];
        assert_eq!(call[2..9], keys);
        assert_eq!(call[9..], ["{a}:fence", "{b}:fence", "10", "a label", "1", "me", "you"]);
    }

    #[test]
    fn releases_are_one_call() {
        let (together, commands) = (Together::default(), [release("a", "me"), release("b", "you")]);
        let joining = JoiningId::of(&commands[0]).expect("a joining");
        let call = words(&together.call(joining, &commands.each_ref()));
        assert_eq!(call[2..], ["4", "a", "b", "{a}:queue", "{b}:queue", "me", "you"]);
    }

    #[test]
    fn what_differs_goes_apart() {
        let (one, other) = (acquire("a", "me", 10), acquire("b", "you", 11));
        let joining = JoiningId::of(&one).expect("a joining");
        assert!(joining.joins(&one, &one) && !joining.joins(&one, &other));
        assert_ne!(JoiningId::of(&release("a", "me")), Some(joining));
        let name = LockName::new("a").expect("a name");
        let withdraw =
            WITHDRAW.call(Form::Hash, Servers::One, &Keys::new(&name).claiming("me"), ("me", 1, 0));
        assert_eq!(JoiningId::of(&withdraw), None);
    }

    #[test]
    fn a_server_that_forgot_the_program_is_sent_it_again() {
        let (together, commands) = (Together::default(), [release("a", "me"), release("b", "you")]);
        let joining = JoiningId::of(&commands[0]).expect("a joining");
        let command = || words(&together.call(joining, &commands.each_ref()))[0].clone();
        assert_eq!(command(), "EVAL");
        let answers = Value::Array(vec![Value::Int(1), Value::Nil]);
        assert_eq!(together.answers(joining, 2, answers), [Some(Value::Int(1)), None]);
        assert_eq!(command(), "EVALSHA");
        assert_eq!(together.answers(joining, 2, error("NOSCRIPT none")), [None, None]);
        assert!(together.is_accepted(joining));
        assert_eq!(command(), "EVAL");
    }

    #[test]
    fn a_server_that_refuses_is_left_alone_for_a_while() {
        let (together, refused) = (Together::default(), error("NOPERM no"));
        let joining = JoiningId::of(&release("a", "me")).expect("a joining");
        assert!(together.is_accepted(joining));
        assert_eq!(together.answers(joining, 2, refused), [None, None]);
        assert!(!together.is_accepted(joining));
    }

    /// What the server answers instead of a result.
    fn error(text: &str) -> Value {
        redis::parse_redis_value(format!("-{text}\r\n").as_bytes()).expect("a value")
    }
}
