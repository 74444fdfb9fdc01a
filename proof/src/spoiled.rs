//! The server's answers, and its flaws.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use lock_core::backend::{Claim, Grant, ServerTime, TokenRange};
use lock_core::{Clock, Contention, FencingToken, Kind, LockName, LockState, OwnerId, Slots, Ttl};

use crate::flaw::Flaw;
use crate::server::Server;

/// State for the server's answers.
#[derive(Debug)]
pub(crate) struct Spoiled {
    clock: Arc<dyn Clock>,
    /// The last grant of each lock.
    last: Mutex<HashMap<LockName, (OwnerId, FencingToken)>>,
    /// The first reserved tokens of each lock.
    first: Mutex<HashMap<LockName, TokenRange>>,
    /// The first state of each lock that had a holder.
    frozen: Mutex<HashMap<LockName, LockState>>,
}

impl Spoiled {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let (last, first, frozen) = Default::default();
        Self { clock, last, first, frozen }
    }

    /// Returns the server's time; its clock may have been set back.
    fn time(&self) -> ServerTime {
        ServerTime(self.clock.wall().duration_since(UNIX_EPOCH).unwrap_or_default())
    }
}

impl Server {
    /// Returns the claim as the server keeps it.
    pub(crate) fn as_kept(&self, claim: &Claim) -> Claim {
        let mut kept = claim.clone();
        kept.ttl = self.kept_for(claim.ttl);
        if self.world.has(Flaw::ExclusiveTakenForShared) {
            kept.kind = Kind::Shared;
        }
        kept
    }

    /// Returns the time for which the server keeps a hold, whatever it reports.
    pub(crate) fn kept_for(&self, ttl: Ttl) -> Ttl {
        match self.world.plan.flaw {
            Some(Flaw::HoldEndsEarly) => Ttl::new(ttl.as_duration() / 2).unwrap_or(ttl),
            Some(Flaw::HoldStays) => Ttl::MAX,
            _ => ttl,
        }
    }

    /// The state of a lock as it is told.
    pub(crate) fn told_state(&self, name: &LockName) -> LockState {
        let state = self.state(name);
        let is_old = self.world.has(Flaw::StateFrozen)
            || self.world.has(Flaw::ObserverForgets) && self.world.draw(|rng| rng.one_in(2));
        if !is_old {
            return state;
        }
        let mut frozen = self.spoiled.frozen.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.holders.is_empty() {
            frozen.entry(name.clone()).or_insert_with(|| state.clone());
        }
        frozen.get(name).cloned().unwrap_or(state)
    }

    /// Changes a grant before it is reported.
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

    /// Sets the reported slots of a grant.
    fn spoil_slots(&self, claim: &Claim, grant: &mut Grant) {
        if self.world.has(Flaw::SlotGivenTwice) {
            grant.slots = Slots::new(0..claim.kind.slots());
        }
    }

    /// Returns the reported tokens of a reservation.
    pub(crate) fn spoil_range(&self, name: &LockName, tokens: TokenRange) -> TokenRange {
        let mut first = self.spoiled.first.lock().unwrap_or_else(PoisonError::into_inner);
        let earlier = *first.entry(name.clone()).or_insert(tokens);
        if self.world.has(Flaw::TokensReservedTwice) { earlier } else { tokens }
    }

    /// Sets the time of a busy answer: after each earlier grant, even if the clock was set back since.
    pub(crate) fn told_busy(&self, name: &LockName, seen: &mut Contention) {
        let newest = self.last().get(name).map(|(_, token)| of_token(*token));
        let after = newest.map(|ServerTime(newest)| ServerTime(newest + Duration::from_micros(1)));
        seen.at = after.max(Some(self.spoiled.time()));
    }

    fn last(&self) -> MutexGuard<'_, HashMap<LockName, (OwnerId, FencingToken)>> {
        self.spoiled.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a grant in its pushed form.
    pub(crate) fn as_pushed(&self, grant: Grant) -> Grant {
        match self.world.has(Flaw::PushStampedOnArrival) {
            true => grant.at(self.spoiled.time()),
            false => grant,
        }
    }
}

/// Returns the time from which a token is made: never before the time of its grant.
fn of_token(token: FencingToken) -> ServerTime {
    ServerTime(Duration::from_micros(token.get()))
}
