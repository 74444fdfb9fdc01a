//! Requests to a backend: a lock for an owner, or more time for a hold.

use super::{FencingToken, Kind, Label, Lease, LockName, OwnerId, Ttl};

/// One acquisition, as a backend sees it: the owner, the lock and the TTL.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Claim {
    /// The lock.
    pub name: LockName,
    /// The owner, drawn anew for each acquisition.
    pub owner: OwnerId,
    /// The server keeps an unrenewed lease for this long.
    pub ttl: Ttl,
    /// The holder's own label.
    pub label: Label,
    /// The kind, which decides on the other holds beside this one.
    pub kind: Kind,
}

/// One hold that is to last longer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Renewal {
    /// The lock.
    pub name: LockName,
    /// The holder.
    pub owner: OwnerId,
    /// The token of the hold. An owner whose request came late may hold the lock again under another token: that is
    /// another hold.
    pub token: FencingToken,
    /// The server keeps the hold for this long from now on.
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
    /// The holder.
    pub owner: OwnerId,
    /// The newest token of the hold: the store's, or the last one within its client.
    pub token: FencingToken,
    /// Number of tokens wanted: at least 1.
    pub tokens: u32,
    /// True if clients that wait on the server go first.
    pub yields: bool,
}

impl Reservation {
    /// Asks for `tokens` tokens to follow those of the hold that `lease` proves.
    pub fn new(lease: &Lease, tokens: u32, yields: bool) -> Self {
        let (name, owner, token) = (lease.name.clone(), lease.owner, lease.token);
        Self { name, owner, token, tokens, yields }
    }
}
