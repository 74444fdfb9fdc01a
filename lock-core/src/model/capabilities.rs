//! Differences between backends, as data.

use std::fmt;
use std::time::Duration;

use super::Kind;

/// Abilities and limits of a backend (C30).
///
/// A clause of the contract that a backend cannot keep is declared here, so no difference is silent. Documentation
/// and tools print this data.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Capabilities {
    /// The backend's name, as errors and metrics show it.
    pub backend: &'static str,
    /// Order in which waiting clients are served.
    pub order: Order,
    /// The way in which a waiter learns of its turn.
    pub wakeup: Wakeup,
    /// The way in which renewals reach the server.
    pub renewals: Renewals,
    /// The events that fencing tokens survive.
    pub tokens: TokenDurability,
    /// The unit in which the server counts TTLs.
    #[cfg_attr(feature = "serde", serde(rename = "ttl_granularity_ms", serialize_with = "as_ms"))]
    pub ttl_granularity: Duration,
    /// The kinds of hold beside the exclusive one.
    pub kinds: Kinds,
    /// The fate of locks when the store fails or loses its data, in one sentence.
    pub on_store_loss: &'static str,
}

impl Capabilities {
    /// The capabilities of a backend. All must be given. The backend has exclusive holds alone.
    pub const fn new(
        backend: &'static str,
        order: Order,
        wakeup: Wakeup,
        renewals: Renewals,
        tokens: TokenDurability,
        ttl_granularity: Duration,
        on_store_loss: &'static str,
    ) -> Self {
        let kinds = Kinds::Exclusive;
        Self { backend, order, wakeup, renewals, tokens, ttl_granularity, kinds, on_store_loss }
    }

    /// Adds these kinds of hold.
    #[must_use]
    pub const fn with_kinds(self, kinds: Kinds) -> Self {
        Self { kinds, ..self }
    }
}

/// The kinds of hold of a backend (C33).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Kinds {
    /// Exclusive holds alone.
    Exclusive,
    /// Exclusive and shared holds.
    Shared,
    /// Exclusive and shared holds, and permits with slots.
    Permits,
}

impl Kinds {
    /// Returns true if the backend has holds of this kind.
    pub const fn has(self, kind: Kind) -> bool {
        match kind {
            Kind::Exclusive => true,
            Kind::Shared => !matches!(self, Self::Exclusive),
            Kind::OneOf(_) => matches!(self, Self::Permits),
        }
    }
}

/// Order in which waiting clients are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Order {
    /// First come, first served; a release wakes one waiter.
    Fifo,
    /// Any waiter may be next.
    Unordered,
}

/// The way in which a waiter learns of its turn. Observers learn of changes by
/// [`LockAdmin::changes`](crate::LockAdmin::changes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Wakeup {
    /// The backend pushes the turn; a poll at most a second apart covers a lost message.
    Push,
    /// The waiter looks again, at growing intervals up to this span.
    #[cfg_attr(feature = "serde", serde(rename = "poll_ms", serialize_with = "as_ms"))]
    Poll(Duration),
}

/// The way in which renewals reach the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Renewals {
    /// Up to a hundred holds share a request.
    Batched,
    /// Each hold sends a request of its own, so the client asks for one at a time, each with a time-out of its own.
    Single,
}

/// The events that fencing tokens survive, beside expiry, release and steps of the client's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum TokenDurability {
    /// Tokens grow for as long as the store keeps its data. They also grow through a loss of the data, unless the
    /// store's clock is then behind the last token.
    CounterAndClock,
    /// Tokens grow for as long as the store keeps its data.
    Store,
}

/// Serialises a span as a number of milliseconds.
#[cfg(feature = "serde")]
fn as_ms<S: serde::Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(span.as_millis().try_into().unwrap_or(u64::MAX))
}

impl fmt::Display for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = match self.order {
            Order::Fifo => "first come, first served",
            Order::Unordered => "in any order",
        };
        let wakeup = match self.wakeup {
            Wakeup::Push => "woken by push".to_owned(),
            Wakeup::Poll(longest) => format!("polling every {longest:?} at the most"),
        };
        let renewals = match self.renewals {
            Renewals::Batched => "a hundred renewals share a request",
            Renewals::Single => "each renewal is a request of its own",
        };
        let tokens = match self.tokens {
            TokenDurability::CounterAndClock => "a counter, and the clock if the counter is lost",
            TokenDurability::Store => "the store's own counter",
        };
        writeln!(f, "{}: waiters {order}, {wakeup}; {renewals}", self.backend)?;
        let kinds = match self.kinds {
            Kinds::Exclusive => "exclusive holds alone",
            Kinds::Shared => "exclusive and shared holds",
            Kinds::Permits => "exclusive and shared holds, and permits with slots",
        };
        writeln!(f, "  {kinds}")?;
        writeln!(f, "  tokens from {tokens}; TTL in units of {:?}", self.ttl_granularity)?;
        write!(f, "  {}", self.on_store_loss)
    }
}
