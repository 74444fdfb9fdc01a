//! The owner of a hold.

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

use super::invalid_input::{InputKind, InvalidInput};
use super::random::owner_bits;

/// Owner of a hold (C3): 128 random bits, drawn anew for each acquisition. The first bit is set for a candidate of an
/// election (C40).
///
/// An owner id is a **capability**: everybody who knows it can extend and release the hold. So the client draws it
/// before it sends the first byte, and `Debug` and `Display` show only its first 8 hex digits. Only
/// [`expose`](OwnerId::expose) returns all digits.
///
/// ```
/// use lock_core::OwnerId;
///
/// let owner = OwnerId::random();
/// assert_eq!(owner.expose().len(), 32);
/// assert_eq!(owner.to_string(), owner.expose()[..8]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct OwnerId(Uuid);

/// The bit that marks the owner id of a candidate. It is among the digits that are shown, so each store can
/// distinguish a leader from another holder.
const CANDIDATE: u128 = 1 << 127;

impl OwnerId {
    /// Draws a new owner id from the operating system.
    pub fn random() -> Self {
        // C3: by the client, before the first byte is sent.
        Self(Uuid::from_u128(owner_bits() & !CANDIDATE))
    }

    /// Draws the owner id of a candidate of an election.
    pub(crate) fn of_candidate() -> Self {
        Self(Uuid::from_u128(owner_bits() | CANDIDATE))
    }

    /// Draws another owner id of the same sort.
    pub(crate) fn drawn_anew(self) -> Self {
        if self.is_candidate() { Self::of_candidate() } else { Self::random() }
    }

    /// Returns true for a candidate of an election.
    pub(crate) fn is_candidate(self) -> bool {
        self.0.as_u128() & CANDIDATE != 0
    }

    /// Returns true if these first digits, as [`Display`](fmt::Display) shows them, are those of a candidate.
    pub(crate) fn shows_candidate(digits: &str) -> bool {
        u32::from_str_radix(digits, 16).is_ok_and(|first| u128::from(first) << 96 & CANDIDATE != 0)
    }

    /// Returns the whole id as 32 lower-case hex digits. Treat it as a password.
    pub fn expose(&self) -> String {
        self.0.as_simple().to_string()
    }
}

impl FromStr for OwnerId {
    type Err = InvalidInput;

    /// Reads what [`expose`](OwnerId::expose) wrote.
    fn from_str(text: &str) -> Result<Self, InvalidInput> {
        let whole = text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
        let id = whole.then(|| Uuid::try_parse(text).ok()).flatten();
        // C3: the error does not repeat the text, since it may be most of an id.
        let refused =
            || InvalidInput::new(InputKind::Owner, "not an owner id: an owner id is 32 hex digits");
        id.map(Self).ok_or_else(refused)
    }
}

impl fmt::Display for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // C3: no text shows more of an owner id.
        write!(f, "{:08x}", self.0.as_u128() >> 96)
    }
}

impl fmt::Debug for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnerId({self}…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c03_an_owner_shows_no_more_than_eight_digits() {
        let owner = OwnerId::random();
        let secret = &owner.expose()[8..];
        assert!(!format!("{owner} {owner:?}").contains(secret));
        assert_eq!(owner.expose().parse::<OwnerId>().expect("its own text"), owner);
        assert_ne!(owner, OwnerId::random());
    }

    #[test]
    fn c40_the_digits_that_are_shown_tell_a_candidate() {
        let shows = |owner: OwnerId| OwnerId::shows_candidate(&owner.to_string());
        for _ in 0..64 {
            let (candidate, other) = (OwnerId::of_candidate(), OwnerId::random());
            assert!(shows(candidate) && shows(candidate.drawn_anew()), "{candidate}");
            assert!(!shows(other) && !shows(other.drawn_anew()), "{other}");
        }
        assert!(!OwnerId::shows_candidate("") && !OwnerId::shows_candidate("none"));
    }
}
