//! C39: claims that are asked for in the request of another.

use std::mem::take;

use tokio::time::Instant;

use super::claim_state::{ClaimEvent, ClaimState};
use super::local_queue::Turn;
use super::succession::PassedHold;
use crate::backend::Grant;
use crate::model::{Claim, Lease};

/// The claims that go in the first request of another claim, and what came of them.
///
/// ```text
///              the request
///   companions ──────────▶ granted, from the front on
///                   │
///                   └────▶ let go: each is asked for when its turn comes
/// ```
#[derive(Default)]
pub(crate) struct Together<'a> {
    companions: Vec<Companion<'a>>,
    granted: Vec<GrantedCompanion>,
    has_refused: bool,
}

/// A claim that goes in the request of another.
pub(crate) struct Companion<'a> {
    pub(crate) claim: &'a Claim,
    pub(crate) state: &'a mut ClaimState,
    /// Keeps others of its client in line until the answer has come. Nobody waits longer for it: its claim may
    /// have to wait for that of another.
    pub(crate) turn: Option<Turn<PassedHold>>,
}

/// One that was granted.
pub(crate) struct GrantedCompanion {
    pub(crate) lease: Lease,
    pub(crate) turn: Option<Turn<PassedHold>>,
    /// When it was asked for.
    pub(crate) sent: Instant,
}

impl<'a> Together<'a> {
    pub(crate) fn of(companions: Vec<Companion<'a>>) -> Self {
        Self { companions, ..Self::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.companions.is_empty()
    }

    /// The claims of a request that is sent now, of which `first` is the first.
    pub(crate) fn asked_behind(&mut self, first: &Claim) -> Vec<Claim> {
        self.companions.iter_mut().for_each(|companion| companion.state.note(ClaimEvent::Asked));
        let behind = self.companions.iter().map(|companion| companion.claim);
        [first].into_iter().chain(behind).cloned().collect()
    }

    /// The request ended without grants.
    pub(crate) fn ended(&mut self, event: ClaimEvent) {
        take(&mut self.companions).into_iter().for_each(|companion| companion.state.note(event));
    }

    /// The server granted those at the front of a request of the moment `sent`, if `lease` believes it.
    pub(crate) fn answered(
        &mut self,
        grants: &[Grant],
        sent: Instant,
        lease: impl Fn(&Claim, &Grant, ClaimState) -> Option<Lease>,
    ) {
        for (at, Companion { claim, state, turn }) in
            take(&mut self.companions).into_iter().enumerate()
        {
            let Some(grant) = grants.get(at) else {
                state.note(ClaimEvent::Refused);
                self.has_refused = true;
                continue;
            };
            match lease(claim, grant, *state).filter(|_| self.granted.len() == at) {
                Some(lease) => {
                    state.note(ClaimEvent::Granted);
                    self.granted.push(GrantedCompanion { lease, turn, sent });
                }
                // C5: it came too late. The server has it, and its owner finds it when it asks again.
                None => state.note(ClaimEvent::Unanswered),
            }
        }
    }

    /// Whether the request took some, and stopped before the one behind them.
    pub(crate) fn has_refused(&self) -> bool {
        self.has_refused
    }

    pub(crate) fn into_granted(self) -> Vec<GrantedCompanion> {
        self.granted
    }
}
