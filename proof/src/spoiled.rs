//! Answers of the server as they are told, and its flaws, each where it strikes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use lock_core::backend::{Claim, Grant, ServerTime, TokenRange};
use lock_core::{Clock, Contention, FencingToken, Kind, LockName, OwnerId, Slots, Ttl};

use crate::flaw::Flaw;
use crate::server::Server;

/// State by which the server tells.
#[derive(Debug)]
pub(crate) struct Spoiled {
    clock: Arc<dyn Clock>,
    /// The last grant of each lock.
    last: Mutex<HashMap<LockName, (OwnerId, FencingToken)>>,
    /// The first tokens that were reserved of each lock.
    first: Mutex<HashMap<LockName, TokenRange>>,
}

impl Spoiled {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, last: Mutex::default(), first: Mutex::default() }
    }

    /// The time of the server, whose clock may be set back.
    fn time(&self) -> ServerTime {
        ServerTime(self.clock.wall().duration_since(UNIX_EPOCH).unwrap_or_default())
    }
}

impl Server {
    /// The claim as it is kept.
    pub(crate) fn as_kept(&self, claim: &Claim) -> Claim {
        let mut kept = claim.clone();
        kept.ttl = self.kept_for(claim.ttl);
        if self.world.has(Flaw::ExclusiveTakenForShared) {
            kept.kind = Kind::Shared;
        }
        kept
    }

    /// For how long a hold is kept, whatever is told.
    pub(crate) fn kept_for(&self, ttl: Ttl) -> Ttl {
        match self.world.has(Flaw::HoldEndsEarly) {
            true => Ttl::new(ttl.as_duration() / 2).unwrap_or(ttl),
            false => ttl,
        }
    }

    /// Changes a grant that is told.
    pub(crate) fn spoil(&self, claim: &Claim, grant: &mut Grant) {
        grant.ttl = claim.ttl.as_duration();
        grant.at = Some(of_token(grant.token));
        self.spoil_slots(claim, grant);
        let earlier = self.last().insert(claim.name.clone(), (claim.owner, grant.token));
        if let Some((owner, token)) = earlier
            && owner != claim.owner
            && self.world.has(Flaw::TokenReused)
        {
            grant.token = token;
        }
    }

    /// The slots of a grant, as they are told.
    fn spoil_slots(&self, claim: &Claim, grant: &mut Grant) {
        if self.world.has(Flaw::SlotGivenTwice) {
            grant.slots = Slots::new(0..claim.kind.slots());
        }
    }

    /// The tokens of a reservation, as they are told.
    pub(crate) fn spoil_range(&self, name: &LockName, tokens: TokenRange) -> TokenRange {
        let mut first = self.spoiled.first.lock().unwrap_or_else(PoisonError::into_inner);
        let earlier = *first.entry(name.clone()).or_insert(tokens);
        if self.world.has(Flaw::TokensReservedTwice) { earlier } else { tokens }
    }

    /// When the server says that it is busy: after each grant before it, also if its clock was set back since.
    pub(crate) fn told_busy(&self, seen: &mut Contention) {
        // Its locks share one counter.
        let newest = self.last().values().map(|(_, token)| of_token(*token)).max();
        let after = newest.map(|ServerTime(newest)| ServerTime(newest + Duration::from_micros(1)));
        seen.at = after.max(Some(self.spoiled.time()));
    }

    fn last(&self) -> MutexGuard<'_, HashMap<LockName, (OwnerId, FencingToken)>> {
        self.spoiled.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A grant as it is pushed.
    pub(crate) fn as_pushed(&self, grant: Grant) -> Grant {
        match self.world.has(Flaw::PushStampedOnArrival) {
            true => grant.at(self.spoiled.time()),
            false => grant,
        }
    }
}

/// The time that a token is made from: no less than that of its grant.
fn of_token(token: FencingToken) -> ServerTime {
    ServerTime(Duration::from_micros(token.get()))
}
