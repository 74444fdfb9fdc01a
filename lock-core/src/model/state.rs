//! A lock as observers see it.

use std::time::{Duration, SystemTime};

use super::{FencingToken, Kind, Label, LockName, OwnerId, Slots};

/// A lock as seen from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LockState {
    /// The lock.
    pub name: LockName,
    /// The holders, in the order of their grants: several only if they hold it
    /// [beside each other](Kind).
    pub holders: Vec<Holder>,
    /// Number of waiting clients, where the backend knows.
    pub waiters: Option<u64>,
    /// Each number of permits that its holders and waiters count, ascending. With two numbers its users disagree: those
    /// who count one wait for those who count the other (C33).
    pub permits: Vec<u16>,
}

impl LockState {
    /// The state of the lock called `name`.
    pub fn new(
        name: LockName,
        holders: impl IntoIterator<Item = Holder>,
        waiters: Option<u64>,
    ) -> Self {
        let holders: Vec<Holder> = holders.into_iter().collect();
        let counted: Vec<u16> = holders.iter().map(|holder| holder.kind.permits()).collect();
        Self { name, holders, waiters, permits: Vec::new() }.counted_as(counted)
    }

    /// Adds the numbers of permits that its waiters count: 0 for one that waits for another kind of hold.
    #[must_use]
    pub fn counted_as(mut self, numbers: impl IntoIterator<Item = u16>) -> Self {
        self.permits.extend(numbers.into_iter().filter(|number| *number > 0));
        self.permits.sort_unstable();
        self.permits.dedup();
        self
    }

    /// Returns its holder, if it is held: the first, if there are several.
    pub fn holder(&self) -> Option<&Holder> {
        self.holders.first()
    }

    /// Returns true if more than time has passed since `earlier`: the TTL counts down, and a renewal sets it back.
    pub fn differs_from(&self, earlier: &Self) -> bool {
        self.at_rest() != earlier.at_rest()
    }

    /// Returns the state with all values that change by themselves set to zero.
    fn at_rest(&self) -> Self {
        let mut state = self.clone();
        for holder in &mut state.holders {
            holder.ttl_left = holder.ttl_left.map(|_| Duration::ZERO);
        }
        state
    }

    /// Returns the listing of these locks: those that are held and whose names start with `prefix`, sorted by name,
    /// at most `limit` of them.
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

/// A holder as seen from outside. It lets no observer act as the holder.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Holder {
    /// The first 8 hex digits of its owner id; `None` for a foreign holder.
    pub owner: Option<String>,
    /// Its fencing token; `None` for a foreign holder.
    pub token: Option<FencingToken>,
    /// The lease lasts for this long if it is not renewed; `None` means for ever.
    pub ttl_left: Option<Duration>,
    /// The holder's own label.
    pub label: Label,
    /// Time of the grant (C45) on the server's wall clock. etcd tells no time: there it is the time on the holder's
    /// clock, if the lock was granted at once. `None` if it is not known.
    pub since: Option<SystemTime>,
    /// The kind, which decides on the other holds beside this one.
    pub kind: Kind,
    /// Its slots, if it is one of n.
    pub slots: Slots,
    /// The last token that was reserved for later tasks of its client, if the holder was evicted. An inspection does
    /// not tell it.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub reserved: Option<FencingToken>,
}

impl Holder {
    /// A holder that is a client of locks.
    pub fn ours(owner: OwnerId, token: FencingToken, ttl_left: Duration, label: Label) -> Self {
        let (owner, token) = (Some(owner.to_string()), Some(token));
        let (since, kind, slots, reserved) = (None, Kind::Exclusive, Slots::NONE, None);
        Self { owner, token, ttl_left: Some(ttl_left), label, since, kind, slots, reserved }
    }

    /// Sets the time of the grant on the server's wall clock.
    #[must_use]
    pub fn since(self, since: SystemTime) -> Self {
        Self { since: Some(since), ..self }
    }

    /// Sets the kind, if it is not exclusive.
    #[must_use]
    pub fn of_kind(self, kind: Kind, slots: Slots) -> Self {
        Self { kind, slots, ..self }
    }

    /// Sets the last token that was reserved for the hold, if it is exclusive: only such a hold passes within its
    /// client.
    #[must_use]
    pub fn reserved(self, last: Option<FencingToken>) -> Self {
        let reserved = last.filter(|_| self.kind == Kind::Exclusive);
        Self { reserved, ..self }
    }

    /// A foreign holder, of which only the remaining lease time is known.
    pub fn foreign(ttl_left: Option<Duration>) -> Self {
        let (label, kind, slots) = (Label::default(), Kind::Exclusive, Slots::NONE);
        Self { owner: None, token: None, ttl_left, label, since: None, kind, slots, reserved: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(owner: OwnerId, ttl_left: Option<Duration>) -> LockState {
        let token = "7".parse().expect("a token");
        let holder = Holder::ours(owner, token, Duration::ZERO, Label::default());
        let holder = Holder { ttl_left, ..holder };
        LockState::new(LockName::new("a").expect("a name"), Some(holder), Some(0))
    }

    #[test]
    fn c44_a_ttl_that_counts_down_is_no_change() {
        let (owner, second) = (OwnerId::random(), Duration::from_secs(1));
        let seen = held(owner, Some(second));
        assert!(!held(owner, Some(second / 2)).differs_from(&seen), "time goes by");
        assert!(!held(owner, Some(second * 2)).differs_from(&seen), "it is renewed");
        assert!(held(owner, None).differs_from(&seen), "it lasts for ever now");
        assert!(held(OwnerId::random(), Some(second)).differs_from(&seen), "another holds it");
        let free = LockState { holders: Vec::new(), ..seen.clone() };
        assert!(free.differs_from(&seen), "nobody holds it");
        let waited_for = LockState { waiters: Some(1), ..seen.clone() };
        assert!(waited_for.differs_from(&seen), "somebody waits");
    }
}
