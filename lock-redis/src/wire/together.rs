//! Calls that carry the requests of many callers to the server.
//!
//! A call of a script costs the server several times as much as the commands in it. So if many callers ask the same
//! of different locks at the same time, one call asks for all of them. The call carries out requests in the common
//! case, and each has its own answer. It leaves the others unchanged, and they go alone.
//!
//! ```text
//!   acquire a ──┐                                      ┌──▶ a: its token
//!   acquire b ──┼──▶ one call for a, b, c ──▶ server ──┼──▶ b: left ──▶ acquire b
//!   acquire c ──┘                                      └──▶ c: its token
//! ```
//!
//! If the whole call fails, each request goes alone, and succeeds or fails by itself. A repeat finds the effects of
//! the call before it failed (C16).

use std::time::{Duration, Instant};

use lock_core::{LockName, OwnerId};
use parking_lot::Mutex;
use redis::{Cmd, ErrorKind, ServerErrorKind, Value};

use crate::protocol::keys::{Key, Keys};
use crate::protocol::message::{Acquiring, Message};
use crate::scripts::{ACQUIRE_TOGETHER, Form, RELEASE_TOGETHER, Servers};

/// Time after a refusal of a call for many locks until the next such call.
const REFUSAL_REMEMBERED: Duration = Duration::from_secs(1);

impl Message {
    /// Returns true if both may share one call.
    pub(crate) fn joins(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Acquire(one), Self::Acquire(other)) => one.joins(other),
            (Self::Release(_), Self::Release(_)) => true,
            _ => false,
        }
    }

    fn lock(&self) -> Option<(&LockName, OwnerId)> {
        match self {
            Self::Acquire(acquiring) => Some((&acquiring.name, acquiring.owner)),
            Self::Release(releasing) => Some((&releasing.name, releasing.owner)),
            Self::Command(_) => None,
        }
    }
}

impl Acquiring {
    /// Returns true if the common parts of the call are the same for both.
    fn joins(&self, other: &Self) -> bool {
        let exclusive = self.kind.is_none() && other.kind.is_none();
        exclusive && self.ttl_ms == other.ttl_ms && self.label == other.label
    }
}

/// Questions to one server about many locks at once.
#[derive(Default)]
pub(crate) struct Together {
    calls: Mutex<Calls>,
}

#[derive(Default)]
struct Calls {
    acquire: Call,
    release: Call,
}

impl Calls {
    fn of(&mut self, message: &Message) -> Option<&mut Call> {
        match message {
            Message::Acquire(_) => Some(&mut self.acquire),
            Message::Release(_) => Some(&mut self.release),
            Message::Command(_) => None,
        }
    }
}

/// Manner of calling a program for many locks.
#[derive(Clone, Copy, Default)]
enum Call {
    /// Lets the server learn the program.
    #[default]
    ByText,
    ByHash,
    /// The server refused such a call. None is sent before this time.
    NotBefore(Instant),
}

impl Together {
    /// Returns true if such requests share a call now.
    pub(crate) fn is_accepted(&self, message: &Message) -> bool {
        let mut calls = self.calls.lock();
        let is_refused =
            |call: &Call| matches!(call, Call::NotBefore(then) if Instant::now() < *then);
        calls.of(message).is_some_and(|call| !is_refused(call))
    }

    /// Returns one call for `first` and those that join it.
    pub(crate) fn call(&self, first: &Message, others: &[&Message]) -> Cmd {
        let form = match self.calls.lock().of(first) {
            Some(Call::ByHash) => Form::Hash,
            _ => Form::Text,
        };
        let locks = || [first].into_iter().chain(others.iter().copied()).filter_map(Message::lock);
        let keys: Vec<Keys<'_>> = locks().map(|(name, _)| Keys::new(name)).collect();
        let keys: Vec<Key<'_>> = keys.iter().map(Keys::lock).collect();
        let owners: Vec<String> = locks().map(|(_, owner)| owner.expose()).collect();
        match first {
            Message::Acquire(Acquiring { ttl_ms, label, limit, .. }) => {
                let args = (*ttl_ms, label.as_str(), *limit, owners);
                ACQUIRE_TOGETHER.call(form, Servers::One, &keys, args)
            }
            _ => RELEASE_TOGETHER.call(form, Servers::One, &keys, owners),
        }
    }

    /// Returns the answers to a call of `count` requests like `message`; `None` for each left request.
    pub(crate) fn answers(
        &self,
        message: &Message,
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
        if let Some(last) = self.calls.lock().of(message) {
            *last = call;
        }
        let mut answers = answers.into_iter();
        let next = || answers.next().filter(|answer| *answer != Value::Nil);
        std::iter::repeat_with(next).take(count).collect()
    }
}

#[cfg(test)]
mod tests {
    use redis::Arg;

    use super::*;
    use crate::protocol::message::Releasing;

    fn acquire(name: &str, ttl_ms: u64) -> Message {
        let name = LockName::new(name).expect("a name");
        let (owner, label) =
            (OwnerId::random(), lock_core::Label::new("a label").expect("a label"));
        let channel = "a channel".into();
        Message::Acquire(Acquiring { name, owner, ttl_ms, label, channel, limit: 1, kind: None })
    }

    fn release(name: &str) -> Message {
        let name = LockName::new(name).expect("a name");
        Message::Release(Releasing { name, owner: OwnerId::random(), limit: 1 })
    }

    fn words(command: &Cmd) -> Vec<String> {
        let words = command.args_iter().map(|argument| match argument {
            Arg::Simple(word) => String::from_utf8_lossy(word).into_owned(),
            _ => String::new(),
        });
        words.collect()
    }

    fn owner(message: &Message) -> String {
        message.lock().expect("a lock").1.expose()
    }

    #[test]
    fn acquisitions_are_one_call() {
        let (a, b) = (acquire("a", 10), acquire("{b}", 10));
        let call = words(&Together::default().call(&a, &[&b]));
        assert_eq!(call[2..8], ["2", "a", "%7Bb%7D", "10", "a label", "1"]);
        assert_eq!(call[8..], [owner(&a), owner(&b)]);
    }

    #[test]
    fn releases_are_one_call() {
        let (a, b) = (release("a"), release("b"));
        let call = words(&Together::default().call(&a, &[&b]));
        assert_eq!(call[2..], ["2", "a", "b", &owner(&a), &owner(&b)]);
    }

    #[test]
    fn what_differs_goes_apart() {
        let one = acquire("a", 10);
        assert!(one.joins(&acquire("b", 10)));
        assert!(!one.joins(&acquire("b", 11)));
        assert!(!one.joins(&release("b")));
        let Message::Acquire(acquiring) = acquire("b", 10) else { unreachable!() };
        let shared = Message::Acquire(Acquiring { kind: Some("*".to_owned()), ..acquiring });
        assert!(!one.joins(&shared) && !shared.joins(&one));
    }

    #[test]
    fn a_server_that_forgot_the_program_is_sent_it_again() {
        let (together, a, b) = (Together::default(), release("a"), release("b"));
        let command = || words(&together.call(&a, &[&b]))[0].clone();
        assert_eq!(command(), "EVAL");
        let answers = Value::Array(vec![Value::Int(1), Value::Nil]);
        assert_eq!(together.answers(&a, 2, answers), [Some(Value::Int(1)), None]);
        assert_eq!(command(), "EVALSHA");
        assert_eq!(together.answers(&a, 2, error("NOSCRIPT none")), [None, None]);
        assert!(together.is_accepted(&a));
        assert_eq!(command(), "EVAL");
    }

    #[test]
    fn a_server_that_refuses_is_left_alone_for_a_while() {
        let (together, refused, a) = (Together::default(), error("NOPERM no"), release("a"));
        assert!(together.is_accepted(&a));
        assert_eq!(together.answers(&a, 2, refused), [None, None]);
        assert!(!together.is_accepted(&a));
        assert!(together.is_accepted(&acquire("a", 10)));
    }

    /// Returns the server's error in place of a result.
    fn error(text: &str) -> Value {
        redis::parse_redis_value(format!("-{text}\r\n").as_bytes()).expect("a value")
    }
}
