//! Reasons of a hold's end.

use std::fmt;

/// Reason of a hold's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LostReason {
    /// The deadline passed without a renewal that the server confirmed.
    Expired,
    /// The [bound](crate::LockRequest::max_hold) of the hold was over, so the hold was not renewed any more.
    MaxHold,
    /// The server answered that the hold is not ours any more.
    Evicted,
    /// The holder released, detached or dropped the hold.
    Released,
    /// The client was shut down.
    Shutdown,
    /// This process is a fork of the holder's, which goes on holding. See [`LockClient`](crate::LockClient#fork).
    Forked,
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "its deadline passed without a confirmed renewal",
            Self::MaxHold => "its `max_hold` ended",
            Self::Evicted => "the server says that the hold has ended",
            Self::Released => "its holder gave it up",
            Self::Shutdown => "its client was shut down",
            Self::Forked => {
                "this process is a fork of the holder's: acquire by a client of its own"
            }
        })
    }
}
