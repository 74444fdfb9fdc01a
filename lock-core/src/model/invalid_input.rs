//! Input that is outside its limits.

use std::fmt;

/// The refused input: see [`InvalidInput::kind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InputKind {
    /// A lock's name (C1): 1 to [`LockName::MAX_BYTES`](crate::LockName::MAX_BYTES) bytes of UTF-8 without
    /// control characters.
    Name,
    /// The number of locks of one request (C39): 1 to
    /// [`MultiRequest::MAX_NAMES`](crate::MultiRequest::MAX_NAMES).
    NameCount,
    /// A TTL (C4): [`Ttl::MIN`](crate::Ttl::MIN) to [`Ttl::MAX`](crate::Ttl::MAX).
    Ttl,
    /// A holder's label: up to [`Label::MAX_BYTES`](crate::Label::MAX_BYTES) bytes of UTF-8 without control
    /// characters.
    Label,
    /// Permits (C33): a lock has 1 to [`Permits::MAX`](crate::Permits::MAX), and a hold takes at least one of
    /// them.
    Permits,
    /// An occurrence (C42): 1 to [`Occurrence::MAX_BYTES`](crate::Occurrence::MAX_BYTES) bytes of UTF-8 without
    /// control characters.
    Occurrence,
    /// The time for which a record is kept (C42): 10 ms to ten years.
    Remember,
    /// A fencing token (C22): an integer from 1 to [`FencingToken::MAX`](crate::FencingToken::MAX).
    Token,
    /// The text of an exported lease.
    Lease,
    /// An owner id (C3): 32 hex digits.
    Owner,
}

/// Input that is outside its limits. Nothing was sent.
///
/// The text names the input, its limits and the remedy. It shows at most the start of the input, escaped. It shows
/// nothing of a lease or an owner id, since these are secrets.
///
/// ```
/// use lock_core::{InputKind, LockName};
///
/// let refused = LockName::new("").expect_err("a name has a byte at least");
/// assert_eq!(refused.kind(), InputKind::Name);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidInput {
    kind: InputKind,
    text: Box<str>,
}

impl InvalidInput {
    pub(crate) fn new(kind: InputKind, text: impl Into<Box<str>>) -> Self {
        Self { kind, text: text.into() }
    }

    /// Returns the refused input.
    pub fn kind(&self) -> InputKind {
        self.kind
    }
}

impl fmt::Display for InvalidInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for InvalidInput {}
