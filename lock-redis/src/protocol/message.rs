//! Requests to a server.
//!
//! Most are a command from the start. The two most frequent requests, to acquire and to release a lock, become a
//! command only when they are sent: several of them may then share one call.

use std::borrow::Cow;

use lock_core::{Label, LockName, OwnerId};
use redis::Cmd;

use crate::protocol::keys::Keys;
use crate::scripts::{ACQUIRE, ACQUIRE_BESIDE, Form, RELEASE, Servers};

/// A request to a server.
pub(crate) enum Message {
    Command(Cmd),
    /// Several such requests may share a call, to a single server that probably knows the script.
    Acquire(Acquiring),
    /// Several such requests may share a call, as with `Acquire`.
    Release(Releasing),
}

/// A request to acquire a lock.
pub(crate) struct Acquiring {
    pub(crate) name: LockName,
    pub(crate) owner: OwnerId,
    pub(crate) ttl_ms: u64,
    pub(crate) label: Label,
    /// The channel of a grant; empty if the caller does not wait.
    pub(crate) channel: Cow<'static, str>,
    /// The latest server time for a grant, in µs.
    pub(crate) limit: u64,
    /// The script's mark of the hold's kind; `None` if it is exclusive.
    pub(crate) kind: Option<String>,
}

/// A request to release a lock.
pub(crate) struct Releasing {
    pub(crate) name: LockName,
    pub(crate) owner: OwnerId,
    /// The latest server time for the next grant, in µs.
    pub(crate) limit: u64,
}

impl Message {
    /// Returns the command of a request that goes alone. This works once.
    pub(crate) fn take_command(&mut self) -> Cmd {
        self.command(Form::Hash, Servers::One)
    }

    /// Turns the request into a command now, unless it may share a call with others on these servers.
    pub(crate) fn fixed(mut self, form: Form, servers: Servers) -> Self {
        match (form, servers) {
            (Form::Hash, Servers::One) => self,
            _ => Self::Command(self.command(form, servers)),
        }
    }

    fn command(&mut self, form: Form, servers: Servers) -> Cmd {
        match self {
            Self::Command(command) => command.take(),
            Self::Acquire(acquiring) => acquiring.command(form, servers),
            Self::Release(releasing) => releasing.command(form, servers),
        }
    }
}

impl From<Cmd> for Message {
    fn from(command: Cmd) -> Self {
        Self::Command(command)
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
            Servers::One => RELEASE.call(form, servers, &keys.granting(), args),
        }
    }
}
