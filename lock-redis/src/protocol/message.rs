//! What a server is asked.
//!
//! Most of it is a command from the start. The two questions of which there are most are written only when they go:
//! to acquire a lock, and to release one. Several of these may then go [as one](crate::wire::together).

use std::borrow::Cow;

use lock_core::{Label, LockName, OwnerId};
use redis::Cmd;

use crate::protocol::keys::Keys;
use crate::scripts::{ACQUIRE, ACQUIRE_BESIDE, Form, RELEASE, Servers};

/// What goes to a server.
pub(crate) enum Message {
    Command(Cmd),
    /// One that may go together with others, to a server that stands alone and probably knows the script.
    Question(Question),
}

/// A question about one lock.
pub(crate) enum Question {
    Acquire(Acquiring),
    Release(Releasing),
}

/// The wish to acquire a lock.
pub(crate) struct Acquiring {
    pub(crate) name: LockName,
    pub(crate) owner: OwnerId,
    pub(crate) ttl_ms: u64,
    pub(crate) label: Label,
    /// Where the server tells of a grant; empty if the caller does not wait for it.
    pub(crate) channel: Cow<'static, str>,
    /// The latest server time in µs at which a grant may be made.
    pub(crate) limit: u64,
    /// What tells the script the kind of the hold; nothing if it is exclusive.
    pub(crate) kind: Option<String>,
}

/// The end of a hold.
pub(crate) struct Releasing {
    pub(crate) name: LockName,
    pub(crate) owner: OwnerId,
    /// The latest server time in µs at which the next grant may be made.
    pub(crate) limit: u64,
}

impl Message {
    /// The command of one that goes alone. It can be taken once.
    pub(crate) fn take_command(&mut self) -> Cmd {
        match self {
            Self::Command(command) => command.take(),
            Self::Question(question) => question.command(Form::Hash, Servers::One),
        }
    }
}

impl From<Cmd> for Message {
    fn from(command: Cmd) -> Self {
        Self::Command(command)
    }
}

impl Question {
    /// As these servers are asked it.
    pub(crate) fn message(self, form: Form, servers: Servers) -> Message {
        match (form, servers) {
            (Form::Hash, Servers::One) => Message::Question(self),
            _ => Message::Command(self.command(form, servers)),
        }
    }

    fn command(&self, form: Form, servers: Servers) -> Cmd {
        match self {
            Self::Acquire(acquiring) => acquiring.command(form, servers),
            Self::Release(releasing) => releasing.command(form, servers),
        }
    }
}

impl Acquiring {
    fn command(&self, form: Form, servers: Servers) -> Cmd {
        let (keys, owner) = (Keys::new(&self.name), self.owner.expose());
        let program = if self.kind.is_some() { &ACQUIRE_BESIDE } else { &ACQUIRE };
        let Self { ttl_ms, label, channel, limit, kind, .. } = self;
        let args = (&*owner, *ttl_ms, label.as_str(), &**channel, *limit, kind.as_deref());
        program.call(form, servers, &keys.claiming(&owner), args)
    }
}

impl Releasing {
    fn command(&self, form: Form, servers: Servers) -> Cmd {
        let (keys, args) = (Keys::new(&self.name), (self.owner.expose(), self.limit));
        match servers {
            Servers::Spread => RELEASE.call(form, servers, &keys.passing_on(), args),
            Servers::One | Servers::Several => RELEASE.call(form, servers, &keys.granting(), args),
        }
    }
}
