//! One acquisition in the line of its client.

use tokio::time::{Instant, timeout};

use super::acquisition::{Acquisition, Granted};
use super::local_queue::{LinePlace, LineSight, Move, Turn};
use super::server_place::ServerPlace;
use super::succession::{Passed, PassedHold, Succession};
use super::wait::AttemptOutcome;
use crate::model::{Claim, Lease, LockError, LockRequest, Wait};

impl Acquisition {
    /// Acquires in the line of this client's waiters (C26).
    pub(super) async fn acquire_in_line(
        &mut self,
        wait: Wait,
        request: &LockRequest,
    ) -> Result<Granted, LockError> {
        let (started, patience) = (Instant::now(), self.shared.store.options.patience(wait));
        let together = self.place.claim.kind.together();
        let mut place = self.shared.local_queue.join(self.name(), together, patience);
        let lease = loop {
            let left = wait.rest_since(started);
            match self.next_move(place, left, request).await? {
                (Move::Lead(turn), passed) => {
                    return self.lead(turn, passed, wait.rest_since(started), request).await;
                }
                (Move::AskBeside(asks), _) => {
                    match self.ask_beside(&asks, wait.rest_since(started)).await? {
                        Some(lease) => break lease,
                        None if self.place.is_new() => place = asks,
                        // The server may have granted it: the line does not wait for it.
                        None => {
                            drop(asks);
                            break self
                                .ask(wait.rest_since(started), request, Instant::now())
                                .await?;
                        }
                    }
                }
                (Move::Leave, _) => {
                    break self.ask(wait.rest_since(started), request, Instant::now()).await?;
                }
            }
        };
        Ok((self.hold(lease, request)?, None))
    }

    /// Waits until this acquisition may ask the server. Returns its move, and what was passed to the head. The listener
    /// is told what the head of the line learns.
    async fn next_move(
        &self,
        place: LinePlace<Passed>,
        wait: Wait,
        request: &LockRequest,
    ) -> Result<(Move<Passed>, Option<Passed>), LockError> {
        let sight = place.sight();
        let moves = async {
            tokio::select! {
                biased;
                next = self.moved(place) => next,
                () = sight.tell(request.listener()) => (Move::Leave, None),
            }
        };
        let Some(span) = wait.span() else { return Ok(moves.await) };
        timeout(span, moves).await.map_err(|_| self.gave_up(&sight, wait))
    }

    async fn moved(&self, place: LinePlace<Passed>) -> (Move<Passed>, Option<Passed>) {
        let next = place.next_move().await;
        let Move::Lead(turn) = &next else { return (next, None) };
        let passed = if self.by_server { turn.ask_server() } else { turn.passed().await };
        // Gives back a useless hold or place, and asks the server.
        let passed = passed.filter(|passed| self.has_use_for(passed));
        (next, passed)
    }

    fn has_use_for(&self, passed: &Passed) -> bool {
        let (ttl, options) = (self.place.claim.ttl, &self.shared.store.options);
        match passed {
            Passed::Hold(hold) => {
                !self.by_server && hold.suits(ttl, options.drift, options.clock.now())
            }
            Passed::Place(place) => place.suits(&self.place),
        }
    }

    /// Returns the error of a wait that ended in line.
    fn gave_up(&self, sight: &LineSight, wait: Wait) -> LockError {
        let (name, waited) = (self.name().clone(), wait.span().unwrap_or_default());
        LockError::Timeout { name, waited, contention: sight.contention() }
    }

    /// Asks the server once, without a place in its queue.
    async fn ask_beside(
        &mut self,
        asks: &LinePlace<Passed>,
        wait: Wait,
    ) -> Result<Option<Lease>, LockError> {
        self.place.answers = Some(asks.answers());
        let asked = self.shared.ask_once(&mut self.place);
        let asked = match wait.span() {
            Some(span) => timeout(span, asked).await.ok(),
            None => Some(asked.await),
        };
        let outcome = asked.unwrap_or_else(|| Err(self.gave_up(&asks.sight(), wait)));
        let granted = outcome.map(|outcome| match outcome {
            AttemptOutcome::Granted(lease) => Some(lease),
            AttemptOutcome::Busy { .. } | AttemptOutcome::Troubled => None,
        });
        asks.asked_beside(matches!(granted, Ok(Some(_))));
        granted
    }

    /// Takes what was passed to the head, or asks the server.
    async fn lead(
        &mut self,
        turn: Turn<Passed>,
        passed: Option<Passed>,
        wait: Wait,
        request: &LockRequest,
    ) -> Result<Granted, LockError> {
        match passed {
            Some(Passed::Hold(PassedHold { lease, claim, turn: client })) => {
                self.place.owned = claim;
                let lease = Lease { asked: self.place.claim.ttl, ..lease };
                let hold = self.hold(lease, request)?;
                let succession = Succession::go_on(turn, &hold, client);
                return Ok((hold, Some(succession)));
            }
            Some(Passed::Place(place)) => self.place = place.taken_by(self.place.claim.clone()),
            None => {}
        }
        let (lease, turn) = self.ask_as_head(turn, wait, request).await?;
        let hold = self.hold(lease, request)?;
        let turn = turn.filter(|_| self.hands_off());
        let succession = turn.map(|turn| Succession::begin(turn, &hold));
        Ok((hold, succession))
    }

    /// Asks the server for the line. If this ends without a grant, the next head takes over the place.
    async fn ask_as_head(
        &mut self,
        turn: Turn<Passed>,
        wait: Wait,
        request: &LockRequest,
    ) -> Result<(Lease, Option<Turn<Passed>>), LockError> {
        self.place.answers = Some(turn.answers());
        let mut head = Head { acquisition: self, turn: Some(turn) };
        let Acquisition { shared, place, .. } = &mut *head.acquisition;
        let limit = shared.store.options.request_timeout;
        let asked = shared.acquire(place, limit, wait, request.listener(), &mut head.turn).await;
        match asked {
            Ok(lease) => Ok((lease, head.turn.take())),
            // The server would refuse the next head too.
            Err(error) if !error.is_busy() && !error.is_transient() => {
                head.turn = None;
                Err(error)
            }
            Err(error) => Err(error),
        }
    }

    fn hands_off(&self) -> bool {
        let options = &self.shared.store.options;
        let passes = options.local_hand_off && !self.by_server;
        passes && self.shared.store.backend.token_ranges().is_some()
    }
}

/// The head of a line that asks the server. Its drop passes the place on the server to the next head. So a line has
/// one place at a time, however short the waits of its heads are (C26).
struct Head<'a> {
    acquisition: &'a mut Acquisition,
    turn: Option<Turn<Passed>>,
}

impl Drop for Head<'_> {
    fn drop(&mut self) {
        let Some(turn) = self.turn.take() else { return };
        let Acquisition { shared, place, .. } = &mut *self.acquisition;
        if !place.is_new() {
            let fresh = Claim { owner: place.claim.owner.drawn_anew(), ..place.claim.clone() };
            let fresh = ServerPlace::new(fresh, &shared.janitor);
            turn.leave(Passed::Place(std::mem::replace(place, fresh)));
            shared.passed_on();
        }
    }
}
