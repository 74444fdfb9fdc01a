//! Giving back: an [`OwnedClaim`] ends its hold on the server, or its drop makes the janitor take back whatever the server
//! may have.

mod claim_state;
mod janitor;
mod owned_claim;

pub(crate) use self::claim_state::ClaimEvent;
pub(crate) use self::janitor::{InFlight, Janitor};
pub(crate) use self::owned_claim::OwnedClaim;
