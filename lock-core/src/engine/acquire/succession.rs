//! Passes a hold from one task of a client to the next, without a request.
//!
//! Many tasks of one process that use one lock need not ask the server for each change of holder. The hold on the
//! server stays the same, with its owner and its token. The server reserves the tokens that follow, and each task of
//! the line gets the next one. This is lock cohorting (Dice, Marathe, Shavit: Lock Cohorting, PPoPP 2012), with
//! fencing tokens.
//!
//! ```text
//!   granted ──▶ first holder ──▶ release, with others in line ──▶ tokens reserved
//!                                                                    │
//!                 released on the server ◀── tokens or time are up ◀── passed on, and on
//! ```

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::local_queue::{LineHolder, Turn};
use super::server_place::ServerPlace;
use crate::backend::{Reservation, TokenRange};
use crate::engine::give_back::OwnedClaim;
use crate::engine::hold::{Hold, least_passed};
use crate::model::{Drift, Lease, Moment, Ttl};

/// Time for which a hold passes to each task of a client. Then the server chooses the next holder: other clients have
/// waited long enough.
const SHORTEST_TURN: Duration = Duration::from_millis(20);

/// Part of the time for which others held the lock that a turn may last for the tasks that waited when it began.
/// These tasks came before the next turn of each other client.
const PART_OF_RIVALS: u32 = 4;

/// Most passes within a client before the server is asked again.
const MOST_PASSES: usize = 64;

/// Number of passes after which a turn is not prolonged: a request would not pay for the few that are left.
const ENOUGH_PASSES: usize = MOST_PASSES / 2;

/// Number of passes for which tokens are reserved for each task of the line: tasks that want a hot lock come back.
/// Unused tokens are skipped.
const PASSES_TO_EACH: usize = 4;

/// The rest of a client's line, and the tokens for it.
#[derive(Debug)]
pub(crate) struct Succession {
    line: LineHolder<Passed>,
    turn: ClientTurn,
}

/// The span in which a client may pass a hold on before the server decides.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClientTurn {
    ends: Instant,
    /// The end for tasks that waited when the turn began.
    ends_for_waiters: Instant,
    /// Number of the last of these tasks.
    last_waiter: u64,
    /// Number of tokens reserved for it.
    reserved: usize,
    /// Rest of these tokens; `None` if the server was not asked yet.
    tokens: Option<TokenRange>,
}

impl ClientTurn {
    /// Begins after others held the lock for `rivals`.
    fn begin(last_waiter: u64, rivals: Duration) -> Self {
        let now = Instant::now();
        let (ends, span) = (now + SHORTEST_TURN, SHORTEST_TURN.max(rivals / PART_OF_RIVALS));
        Self { ends, ends_for_waiters: now + span, last_waiter, reserved: 0, tokens: None }
    }

    /// Returns the end for the task with this number.
    fn ends_for(self, next: Option<u64>) -> Instant {
        let has_waited = next.is_some_and(|next| next <= self.last_waiter);
        if has_waited { self.ends_for_waiters } else { self.ends }
    }

    /// Returns true if other clients go before the task with this number.
    fn is_over_for(self, next: Option<u64>) -> bool {
        self.ends_for(next) <= Instant::now()
    }
}

impl Succession {
    /// Begins the succession after a grant of the server.
    pub(super) fn begin(turn: Turn<Passed>, hold: &Arc<Hold>) -> Self {
        let client = ClientTurn::begin(turn.newest(), turn.take_rivals_time());
        Self::go_on(turn, hold, client)
    }

    /// Continues the succession of a passed hold.
    pub(super) fn go_on(turn: Turn<Passed>, hold: &Arc<Hold>, client: ClientTurn) -> Self {
        Self { line: turn.holds(hold, |next| client.ends_for(next)), turn: client }
    }

    /// Returns the reservation to ask for in place of a plain release; `None` if nobody waits in this process.
    ///
    /// A new turn goes before other clients, and the end of a turn goes after them.
    pub(crate) fn reservation(&self, lease: &Lease) -> Option<Reservation> {
        let has_enough = self.turn.reserved >= ENOUGH_PASSES;
        let yields = has_enough || self.turn.is_over_for(self.line.next());
        let passed = if yields { 0 } else { self.turn.reserved };
        let tokens = (PASSES_TO_EACH * self.line.waiters()).min(MOST_PASSES - passed);
        (tokens > 0).then(|| Reservation::new(lease, tokens as u32, yields))
    }

    /// Notes that the server reserved `tokens` for this turn. With `yielded`, other clients would have gone first but
    /// none waits, so a new turn begins.
    pub(crate) fn reserved(self, tokens: TokenRange, yielded: bool) -> Self {
        let begin = || ClientTurn::begin(self.line.newest(), Duration::ZERO);
        let mut turn = if yielded { begin() } else { self.turn };
        (turn.reserved, turn.tokens) = (turn.reserved + tokens.count() as usize, Some(tokens));
        Self { turn, ..self }
    }

    /// Returns true if the hold can be passed on now: a task waits, and there is a token.
    pub(crate) fn has_next(&self) -> bool {
        self.turn.tokens.is_some_and(|tokens| !tokens.is_empty())
            && self.is_awaited()
            && !self.turn.is_over_for(self.line.next())
    }

    /// Returns true if a task of the line waits for the hold.
    pub(crate) fn is_awaited(&self) -> bool {
        self.line.waiters() > 0
    }

    /// Passes a hold on. If nobody takes it, it is returned.
    pub(crate) fn pass(self, lease: Lease, mut claim: OwnedClaim) -> Result<(), OwnedClaim> {
        let Some((token, tokens)) = self.turn.tokens.and_then(TokenRange::split_first) else {
            return Err(claim);
        };
        claim.keep_for(lease.kept_for());
        let turn = ClientTurn { tokens: Some(tokens), ..self.turn };
        let passed = PassedHold { lease: Lease { token, ..lease }, claim, turn };
        match self.line.pass(Passed::Hold(passed)) {
            Err(Passed::Hold(passed)) => Err(passed.claim),
            Ok(()) | Err(Passed::Place(_)) => Ok(()),
        }
    }
}

/// A hold or place in transit to the head of a local queue. Dropping it releases it.
#[derive(Debug)]
pub(crate) enum Passed {
    /// The hold of a task of the line.
    Hold(PassedHold),
    /// The place on the server of a head that left.
    Place(ServerPlace),
}

/// A hold in transit from one task to the next. Dropping it releases it.
#[derive(Debug)]
pub(crate) struct PassedHold {
    pub(super) lease: Lease,
    pub(super) claim: OwnedClaim,
    pub(super) turn: ClientTurn,
}

impl PassedHold {
    /// Returns true if a claim for `ttl` can use the hold at `now`. A hold that lasts longer than that TTL would
    /// delay the others if its new holder dies.
    pub(crate) fn suits(&self, ttl: Ttl, drift: Drift, now: Moment) -> bool {
        self.lease.asked <= ttl && is_worth_passing(&self.lease, drift, now)
    }
}

/// Returns true if the hold has enough time left to be passed on.
pub(crate) fn is_worth_passing(lease: &Lease, drift: Drift, now: Moment) -> bool {
    now.until(lease.deadline) >= least_passed(lease, drift)
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn c26_a_turn_is_longer_for_those_who_waited_alone() {
        let turn = ClientTurn::begin(7, Duration::from_secs(1));
        let is_over = || [Some(7), Some(8), None].map(|next| turn.is_over_for(next));
        assert_eq!(is_over(), [false; 3]);
        advance(SHORTEST_TURN).await;
        assert_eq!(is_over(), [false, true, true]);
        advance(Duration::from_millis(230)).await;
        assert_eq!(is_over(), [true; 3], "a quarter of the rivals' time is over");
        let short = ClientTurn::begin(7, Duration::ZERO);
        advance(SHORTEST_TURN - Duration::from_millis(1)).await;
        assert!(!short.is_over_for(Some(7)), "20 ms at least");
    }
}
