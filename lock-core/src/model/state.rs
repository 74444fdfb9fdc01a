//! A lock as those see it who only look.

use std::time::{Duration, SystemTime};

use super::{FencingToken, Kind, Label, LockName, OwnerId, Slots};

/// A lock as seen from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LockState {
    /// The lock.
    pub name: LockName,
    /// Those who hold it, in the order of their grants: several only if they hold it
    /// [beside each other](Kind).
    pub holders: Vec<Holder>,
    /// How many clients wait for it, where the backend knows.
    pub waiters: Option<u64>,
}

impl LockState {
    /// The state of the lock called `name`.
    pub fn new(
        name: LockName,
        holders: impl IntoIterator<Item = Holder>,
        waiters: Option<u64>,
    ) -> Self {
        Self { name, holders: holders.into_iter().collect(), waiters }
    }

    /// Its holder, if it is held: the first, if there are several.
    pub fn holder(&self) -> Option<&Holder> {
        self.holders.first()
    }

    /// What a listing of these locks shows: those that are held and whose names start with `prefix`, sorted
    /// by name, at most `limit` of them.
    pub fn listed(all: impl IntoIterator<Item = Self>, prefix: &str, limit: usize) -> Vec<Self> {
        // C2: the prefix is data.
        let shown =
            |state: &Self| !state.holders.is_empty() && state.name.as_str().starts_with(prefix);
        let mut listed: Vec<Self> = all.into_iter().filter(shown).collect();
        listed.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        listed.truncate(limit);
        listed
    }
}

/// A holder as seen from outside. Nothing in it lets the one who looks act as the holder.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Holder {
    /// The first 8 hex digits of its owner id; `None` if it is not one of ours.
    pub owner: Option<String>,
    /// Its fencing token; `None` if it is not one of ours.
    pub token: Option<FencingToken>,
    /// How long its lease lasts if it is not renewed; `None` if for ever.
    pub ttl_left: Option<Duration>,
    /// What it says of itself.
    pub label: Label,
    /// When it was granted (C45), on the server's wall clock; on etcd, which tells no time, on the holder's,
    /// if it was granted at once. `None` if that is not known.
    pub since: Option<SystemTime>,
    /// Who may hold the lock beside it.
    pub kind: Kind,
    /// Its slots, if it is one of n.
    pub slots: Slots,
}

impl Holder {
    /// A holder that is one of ours.
    pub fn ours(owner: OwnerId, token: FencingToken, ttl_left: Duration, label: Label) -> Self {
        let (owner, token) = (Some(owner.to_string()), Some(token));
        let (since, kind, slots) = (None, Kind::Exclusive, Slots::NONE);
        Self { owner, token, ttl_left: Some(ttl_left), label, since, kind, slots }
    }

    /// The holder, which was granted the lock at `since` on the server's wall clock.
    #[must_use]
    pub fn since(self, since: SystemTime) -> Self {
        Self { since: Some(since), ..self }
    }

    /// The holder, of another kind than exclusive.
    #[must_use]
    pub fn of_kind(self, kind: Kind, slots: Slots) -> Self {
        Self { kind, slots, ..self }
    }

    /// A holder of which no more is known than how long its lease lasts.
    pub fn foreign(ttl_left: Option<Duration>) -> Self {
        let (label, kind, slots) = (Label::default(), Kind::Exclusive, Slots::NONE);
        Self { owner: None, token: None, ttl_left, label, since: None, kind, slots }
    }
}
