//! A lock as the commands show it.

use std::fmt;
use std::time::Duration;

use leasehold::{FencingToken, Holder, LockState};
use serde::Serialize;

/// What is shown of a lock. The names of the fields are the keys of the JSON.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Seen {
    pub(crate) name: String,
    pub(crate) held: bool,
    pub(crate) owner: Option<String>,
    pub(crate) token: Option<u64>,
    pub(crate) ttl_ms: Option<u64>,
    pub(crate) label: Option<String>,
    pub(crate) waiters: Option<u64>,
}

impl Seen {
    /// Whether `self` and `other` differ in more than the time that has passed.
    pub(crate) fn differs_from(&self, other: &Self) -> bool {
        let lasting = |seen: &Self| Self { ttl_ms: None, ..seen.clone() }.fields();
        lasting(self) != lasting(other)
    }

    fn fields(self) -> impl PartialEq {
        (self.name, self.held, self.owner, self.token, self.label, self.waiters)
    }

    /// Who holds it: `web-3:4711 (owner 1a2b3c4d, token 17)`.
    pub(crate) fn holder(&self) -> String {
        let known = [
            self.owner.as_ref().map(|owner| format!("owner {owner}")),
            self.token.map(|token| format!("token {token}")),
        ];
        let known: Vec<_> = known.into_iter().flatten().collect();
        match (&self.label, known.is_empty()) {
            (Some(label), false) => format!("{label} ({})", known.join(", ")),
            (Some(label), true) => label.clone(),
            (None, false) => known.join(", "),
            (None, true) => "a client that is not one of ours".to_owned(),
        }
    }

    pub(crate) fn ttl(&self) -> String {
        match self.ttl_ms {
            Some(ms) => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
            None => "for ever".to_owned(),
        }
    }
}

impl From<LockState> for Seen {
    fn from(state: LockState) -> Self {
        let free = Self {
            name: state.name.to_string(),
            held: false,
            owner: None,
            token: None,
            ttl_ms: None,
            label: None,
            waiters: state.waiters,
        };
        match state.holder {
            None => free,
            Some(Holder { owner, token, ttl_left, label, .. }) => Self {
                held: true,
                owner,
                token: token.map(FencingToken::get),
                ttl_ms: ttl_left.map(millis),
                label: Some(label.as_str().to_owned()).filter(|label| !label.is_empty()),
                ..free
            },
        }
    }
}

/// One line: `held by …, 29.3 s left, 2 waiting`.
impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.held, self.ttl_ms) {
            (false, _) => f.write_str("free")?,
            (true, Some(_)) => write!(f, "held by {}, {} left", self.holder(), self.ttl())?,
            (true, None) => write!(f, "held by {}, for ever", self.holder())?,
        }
        match self.waiters {
            None | Some(0) => Ok(()),
            Some(waiters) => write!(f, ", {waiters} waiting"),
        }
    }
}

fn millis(span: Duration) -> u64 {
    span.as_millis().try_into().unwrap_or(u64::MAX)
}
