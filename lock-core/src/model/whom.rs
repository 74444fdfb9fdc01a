//! The holders that an eviction ends.

use super::{Holder, OwnerId};

/// The holders that an eviction ends (C38).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whom {
    /// All holders of the lock.
    All,
    /// The hold of the owner whose id begins with these 8 hex digits, as [`Holder::owner`] shows them.
    Owner(String),
}

impl Whom {
    /// Returns true if the eviction ends the hold of this holder.
    pub fn includes(&self, holder: &Holder) -> bool {
        match self {
            Self::All => true,
            Self::Owner(digits) => holder.owner.as_ref() == Some(digits),
        }
    }

    /// Returns true if the eviction ends the hold of this owner.
    pub fn includes_owner(&self, owner: OwnerId) -> bool {
        match self {
            Self::All => true,
            Self::Owner(digits) => *digits == owner.to_string(),
        }
    }
}
