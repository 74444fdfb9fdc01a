//! Passes a hold from one task of a client to the next, without a request.
//!
//! Many tasks of one process on one name need not visit the server for each change of holder. The hold
//! on the server stays one: with its owner, and with the token that it was granted under. The server reserves
//! the tokens that follow, and each task of the line has the next of them. This is lock cohorting (Dice,
//! Marathe, Shavit: Lock Cohorting, PPoPP 2012), with fencing tokens.
//!
//! ```text
//!   granted ──▶ first holder ──▶ release, with others in line ──▶ tokens reserved
//!                                                                    │
//!                 released on the server ◀── tokens or time are up ◀── passed on, and on
//! ```

use std::time::Duration;

use tokio::time::Instant;

use super::local_queue::{LineHolder, Turn};
use super::owned_claim::OwnedClaim;
use super::server_place::ServerPlace;
use crate::backend::{Reservation, TokenRange};
use crate::model::{Lease, Moment, Ttl};

/// A hold passes within a client for no longer. Then the server decides who is next: other clients wait
/// no longer for this one.
const LONGEST_TURN: Duration = Duration::from_millis(20);

/// A hold passes within a client no more often than this before the server is asked again.
const MOST_PASSES: usize = 64;

/// After so many passes a turn is not prolonged: a request would not pay for the few that are left.
const ENOUGH_PASSES: usize = MOST_PASSES / 2;

/// For how many passes to each task of the line tokens are reserved at once: tasks that want a hot lock come back.
/// What is left of them at the end is skipped.
const PASSES_TO_EACH: usize = 4;

/// The next of a client's line, and the tokens for them.
#[derive(Debug)]
pub(crate) struct Succession {
    line: LineHolder<Passed>,
    /// Rest of the tokens that the server reserved; `None` if it was not asked yet.
    tokens: Option<TokenRange>,
    turn: ClientTurn,
}

/// For how long a client may pass a hold on before the server decides.
#[derive(Clone, Copy, Debug)]
struct ClientTurn {
    ends: Instant,
    /// Number of tokens reserved for it.
    reserved: usize,
}

impl ClientTurn {
    fn begin() -> Self {
        Self { ends: Instant::now() + LONGEST_TURN, reserved: 0 }
    }

    /// Returns true if others go first from now on.
    fn is_over(self) -> bool {
        self.ends <= Instant::now() || self.reserved >= ENOUGH_PASSES
    }
}

impl Succession {
    /// The succession to one that the server granted the lock.
    pub(crate) fn begin(turn: Turn<Passed>) -> Self {
        let client = ClientTurn::begin();
        Self { line: turn.holds(client.ends), tokens: None, turn: client }
    }

    /// Returns the reservation to ask for in place of a plain release; `None` if nobody waits in this process.
    ///
    /// A turn goes before other clients, and its end goes after them.
    pub(crate) fn reservation(&self, lease: &Lease) -> Option<Reservation> {
        let yields = self.turn.is_over();
        let passed = if yields { 0 } else { self.turn.reserved };
        let tokens = (PASSES_TO_EACH * self.line.waiters()).min(MOST_PASSES - passed);
        (tokens > 0).then(|| Reservation::new(lease, tokens as u32, yields))
    }

    /// The server reserved `tokens` for this turn; or for another one, if others would have gone first and
    /// nobody waits there.
    pub(crate) fn reserved(self, tokens: TokenRange, yielded: bool) -> Self {
        let mut turn = if yielded { ClientTurn::begin() } else { self.turn };
        turn.reserved += tokens.count() as usize;
        Self { tokens: Some(tokens), turn, ..self }
    }

    /// Returns true if the hold can be passed on now: somebody waits, and there is a token.
    pub(crate) fn has_next(&self) -> bool {
        self.turn.ends > Instant::now()
            && self.tokens.is_some_and(|tokens| !tokens.is_empty())
            && self.line.waiters() > 0
    }

    /// Passes a hold on. If nobody is there to take it, it comes back.
    pub(crate) fn pass(self, lease: Lease, mut claim: OwnedClaim) -> Result<(), OwnedClaim> {
        let Some((token, tokens)) = self.tokens.and_then(TokenRange::split_first) else {
            return Err(claim);
        };
        claim.keep_as(&lease);
        let passed = PassedHold { lease: Lease { token, ..lease }, claim, tokens, turn: self.turn };
        match self.line.pass(Passed::Hold(passed)) {
            Err(Passed::Hold(passed)) => Err(passed.claim),
            Ok(()) | Err(Passed::Place(_)) => Ok(()),
        }
    }
}

/// A hold or place that passes to the head of a line. Dropped, it is given back.
#[derive(Debug)]
pub(crate) enum Passed {
    /// The hold of a task of the line.
    Hold(PassedHold),
    /// The place on the server of the head that left.
    Place(ServerPlace),
}

/// A hold on its way from one task to the next. Dropped, it is given back.
#[derive(Debug)]
pub(crate) struct PassedHold {
    lease: Lease,
    claim: OwnedClaim,
    tokens: TokenRange,
    turn: ClientTurn,
}

impl PassedHold {
    /// Returns true if a claim for `ttl` can use the hold at `now`. A hold that outlasts that TTL would keep the others
    /// waiting for longer if its new holder dies.
    pub(crate) fn suits(&self, ttl: Ttl, now: Moment) -> bool {
        self.lease.asked <= ttl && is_worth_passing(&self.lease, now)
    }

    /// The hold, for one that asked for `ttl` and was the head of the line.
    pub(crate) fn take(self, ttl: Ttl, turn: Turn<Passed>) -> (Lease, OwnedClaim, Succession) {
        let Self { lease, claim, tokens, turn: client } = self;
        let line = turn.holds(client.ends);
        let succession = Succession { line, tokens: Some(tokens), turn: client };
        (Lease { asked: ttl, ..lease }, claim, succession)
    }
}

/// Returns true if enough is left of a hold to be passed on: a tenth of the server's grant.
pub(crate) fn is_worth_passing(lease: &Lease, now: Moment) -> bool {
    now.until(lease.deadline) > lease.granted / 10
}
