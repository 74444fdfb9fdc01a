//! What a backend is asked for: a lock for an owner, or more time for a hold.

use super::{FencingToken, Kind, Label, Lease, LockName, OwnerId, Ttl};

/// One acquisition, as a backend sees it: who asks for which lock, and for how long.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Claim {
    /// The lock.
    pub name: LockName,
    /// Who asks: drawn anew for each acquisition.
    pub owner: OwnerId,
    /// How long the server keeps an unrenewed lease.
    pub ttl: Ttl,
    /// What the holder says of itself.
    pub label: Label,
    /// Who may hold beside it.
    pub kind: Kind,
}

/// One hold that is to last longer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Renewal {
    /// The lock.
    pub name: LockName,
    /// Who holds it.
    pub owner: OwnerId,
    /// The token of the hold. An owner whose request came late may hold the lock once more, under
    /// another token: that is another hold.
    pub token: FencingToken,
    /// How long the server keeps it from now on.
    pub ttl: Ttl,
}

impl Renewal {
    /// Asks to extend the hold that `lease` proves, for `ttl` from now.
    pub fn new(lease: &Lease, ttl: Ttl) -> Self {
        Self { name: lease.name.clone(), owner: lease.owner, token: lease.granted_as, ttl }
    }
}

/// A hold that ends, unless it is kept for others of the same client.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Reservation {
    /// The lock.
    pub name: LockName,
    /// Who holds it.
    pub owner: OwnerId,
    /// How many tokens are wanted: at least 1.
    pub tokens: u32,
    /// Whether clients that wait on the server go first.
    pub yields: bool,
}

impl Reservation {
    /// Asks for `tokens` to follow those of the hold that `lease` proves.
    pub fn new(lease: &Lease, tokens: u32, yields: bool) -> Self {
        Self { name: lease.name.clone(), owner: lease.owner, tokens, yields }
    }
}
