//! The network between a machine and the server: messages are delayed, lost, doubled, reordered and cut off.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lock_core::{BackendError, Outcome};
use tokio::sync::oneshot;
use tokio::time::{sleep, sleep_until};

use crate::flaw::Flaw;
use crate::plan::TroubleKind;
use crate::world::World;

/// Longest transit of a message without trouble.
const USUAL: Duration = Duration::from_millis(2);

/// Connections of a machine. Messages on one of them arrive in order.
const CONNECTIONS: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    There,
    Back,
    Push,
}

/// Fate of a message.
#[derive(Debug)]
enum Fate {
    Arrives(Duration),
    ArrivesTwice(Duration),
    Swallowed,
    Refused,
    /// The sender learns that the connection broke; the message may still arrive.
    Reset(Option<Duration>),
}

/// One machine's network.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) world: Arc<World>,
    machine: usize,
    /// Arrival of the last message of each connection, for each direction.
    last: Mutex<[[Duration; CONNECTIONS]; 3]>,
}

impl Link {
    pub(crate) fn new(world: Arc<World>, machine: usize) -> Arc<Self> {
        Arc::new(Self { world, machine, last: Mutex::default() })
    }

    /// Sends a request that `act` carries out on arrival. Dropping the future does not take back a sent message.
    pub(crate) async fn ask<T: Send + 'static>(
        self: &Arc<Self>,
        what: String,
        act: impl Fn() -> Result<T, BackendError> + Send + 'static,
    ) -> Result<T, BackendError> {
        let (reply, answer) = oneshot::channel();
        tokio::spawn(self.clone().carry(what, act, reply));
        match answer.await {
            Ok(answer) => answer,
            Err(_) => std::future::pending().await,
        }
    }

    async fn carry<T: Send + 'static>(
        self: Arc<Self>,
        what: String,
        act: impl Fn() -> Result<T, BackendError> + Send + 'static,
        reply: oneshot::Sender<Result<T, BackendError>>,
    ) {
        self.world.journal().requests += 1;
        let (machine, fate) = (self.machine, self.fate(Way::There));
        self.world.note(format_args!("m{machine} {what} {fate:?}"));
        let answer = match fate {
            Fate::Swallowed => return,
            Fate::Refused => {
                sleep(self.world.span(USUAL)).await;
                let _ = reply.send(Err(failure(Outcome::NotApplied)));
                return;
            }
            Fate::Reset(arrives) => {
                let _ = reply.send(Err(failure(self.told_of_reset())));
                let Some(at) = arrives else { return };
                self.until(at).await;
                // The reply has no receiver.
                let _ = act();
                return;
            }
            Fate::Arrives(at) => {
                self.until(at).await;
                act()
            }
            Fate::ArrivesTwice(at) => {
                self.until(at).await;
                let _ = act();
                sleep(self.world.span(USUAL * 10)).await;
                act()
            }
        };
        if let Fate::Arrives(at) = self.fate(Way::Back) {
            self.until(at).await;
            let _ = reply.send(answer);
        }
    }

    /// Returns the reported outcome of a request whose connection broke.
    fn told_of_reset(&self) -> Outcome {
        match self.world.has(Flaw::UnknownToldAsNo) {
            true => Outcome::NotApplied,
            false => Outcome::Unknown,
        }
    }

    /// Delivers a message of the server to the machine; false if it is lost.
    pub(crate) async fn push(&self) -> bool {
        match self.fate(Way::Push) {
            Fate::Arrives(at) => {
                self.until(at).await;
                true
            }
            _ => false,
        }
    }

    async fn until(&self, at: Duration) {
        sleep_until(self.world.instant(at)).await;
    }

    /// Returns the fate of a message that is sent now.
    fn fate(&self, way: Way) -> Fate {
        use TroubleKind as Kind;
        let (now, plan) = (self.world.now(), &self.world.plan);
        if plan.machines[self.machine].dies_at.is_some_and(|at| at <= now) {
            return Fate::Swallowed;
        }
        let (mut arrives, mut twice) = (now + self.world.span(USUAL), false);
        for trouble in plan.troubles(self.machine, now) {
            let length = trouble.to - trouble.from;
            if self.world.draw(|rng| rng.one_in(4)) {
                continue;
            }
            match (trouble.kind, way) {
                (Kind::Refused, Way::There) => return Fate::Refused,
                (Kind::Reset, Way::There) => {
                    let is_sent = self.world.draw(|rng| rng.one_in(2));
                    let arrives = is_sent.then(|| self.in_order(way, arrives));
                    return Fate::Reset(arrives);
                }
                (Kind::RequestsSwallowed, Way::There)
                | (Kind::RepliesSwallowed, Way::Back)
                | (Kind::PushesSwallowed, Way::Push) => return Fate::Swallowed,
                (Kind::Slow, _) | (Kind::SlowPushes, Way::Push) => {
                    arrives += self.world.span(length);
                }
                (Kind::Twice, Way::There) => twice = true,
                _ => {}
            }
        }
        let arrives = self.in_order(way, arrives);
        if twice { Fate::ArrivesTwice(arrives) } else { Fate::Arrives(arrives) }
    }

    /// Returns the arrival of a message that could arrive at `at`: after earlier ones on its connection, and
    /// while neither side is stopped.
    fn in_order(&self, way: Way, at: Duration) -> Duration {
        let connection = self.world.draw(|rng| rng.below(CONNECTIONS as u64)) as usize;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let last = &mut last[way as usize][connection];
        let mut at = at.max(*last);
        for trouble in self.world.plan.troubles(self.machine, at) {
            if trouble.kind == TroubleKind::Stopped {
                at = at.max(trouble.to);
            }
        }
        *last = at;
        at
    }
}

fn failure(outcome: Outcome) -> BackendError {
    BackendError::transient("world", outcome, "the network failed", "as the seed has it")
}
