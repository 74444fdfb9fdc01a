//! The answers of a backend.

use std::time::Duration;

use crate::model::{Contention, FencingToken, InvalidInput, ServerTime, Slots};

/// Outcome of an attempt to acquire.
#[derive(Clone, Debug)]
pub enum Attempt {
    /// The claim holds the lock.
    Granted(Grant),
    /// Another holds it, or is before us in the queue.
    Busy(Contention),
}

/// A hold, as the server granted it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Grant {
    /// Greater than every earlier token of this lock.
    pub token: FencingToken,
    /// The server keeps the hold for this long from the moment of the grant.
    pub ttl: Duration,
    /// Time of the grant on the server's clock, if the server reports it.
    pub at: Option<ServerTime>,
    /// Its slots, if it is one of n.
    pub slots: Slots,
}

impl Grant {
    /// A grant of `token` for `ttl`.
    pub fn new(token: FencingToken, ttl: Duration) -> Self {
        Self { token, ttl, at: None, slots: Slots::NONE }
    }

    /// The grant, made at `at` on the server's clock.
    #[must_use]
    pub fn at(self, at: ServerTime) -> Self {
        Self { at: Some(at), ..self }
    }

    /// The grant, with the slots that it has.
    #[must_use]
    pub fn with_slots(self, slots: Slots) -> Self {
        Self { slots, ..self }
    }
}

/// Outcome of an extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extension {
    /// The server keeps the lease for at least this long from now.
    Extended(Duration),
    /// The lock is not ours any more. This is final.
    Lost,
}

/// Outcome of a release (C14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// The hold was ours, and is over.
    Released,
    /// There was no hold of ours to end: it had expired, or was ended by somebody else.
    NotHeld,
}

/// Outcome of recording a run (C42).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recording {
    /// The run is recorded.
    Recorded,
    /// The hold is over, so that its holder cannot record. This is final.
    Lost,
}

/// Outcome of a release that may keep the hold.
#[derive(Clone, Copy, Debug)]
pub enum Reserved {
    /// The hold continues, and these tokens are for the next holders of the same client.
    Tokens(TokenRange),
    /// The hold was released, as by [`release`](super::DistributedLock::release).
    Ended(Release),
}

/// Consecutive tokens that are granted to nobody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenRange {
    first: FencingToken,
    len: u32,
}

impl TokenRange {
    /// `len` tokens, of which `first` is the least.
    ///
    /// # Errors
    /// [`InvalidInput`] if the last of them would not be below 2<sup>53</sup>.
    pub fn new(first: FencingToken, len: u32) -> Result<Self, InvalidInput> {
        FencingToken::new(first.get() + u64::from(len.saturating_sub(1)))?;
        Ok(Self { first, len })
    }

    /// Up to `wanted` tokens that follow `last`, none of which is ahead of `now`: time since 1970 on the **store's** clock.
    /// `None` if there are none.
    ///
    /// So the clock is ahead of these tokens if the counter is lost. A [granted](super::next_token()) token has the
    /// same property (C22).
    pub fn behind_clock(last: FencingToken, wanted: u32, now: Duration) -> Option<Self> {
        let now = u64::try_from(now.as_micros()).unwrap_or(u64::MAX);
        let behind = now.saturating_sub(last.get()).try_into().unwrap_or(u32::MAX);
        let len = wanted.min(behind);
        let first = FencingToken::new(last.get() + 1).ok().filter(|_| len > 0)?;
        Self::new(first, len).ok()
    }

    /// The greatest of them.
    pub fn last(self) -> FencingToken {
        (1..self.len).fold(self.first, |token, _| token.successor())
    }

    /// The least of them.
    pub fn first(self) -> FencingToken {
        self.first
    }

    /// Returns the number of tokens.
    pub fn count(self) -> u32 {
        self.len
    }

    pub(crate) fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The least of them, and the others.
    pub(crate) fn split_first(self) -> Option<(FencingToken, Self)> {
        let len = self.len.checked_sub(1)?;
        Some((self.first, Self { first: self.first.successor(), len }))
    }
}
