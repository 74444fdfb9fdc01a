//! The chain of those who wait for a lock, each in a session of its own.
//!
//! Until Postgres 19 a message wakes every session of the database that listens to anything. So of those who
//! wait for a lock only the first one listens. Each other one waits, in the server, for the advisory lock
//! that the session of the waiter ahead of it holds. A waiter that leaves, granted or not, lets go of its
//! lock, and the one behind it moves up.
//!
//! ```text
//!   holder ──release──▶ tells ──▶ 1st ◀──behind── 2nd ◀──behind── 3rd
//!                               listens
//! ```
//!
//! A client has a few such sessions. Those of its waiters that find none free are told over the one session
//! that all of them [share](super::listener).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::OwnerId;
use lock_core::backend::{Claim, FALLBACK_POLL, WaiterHandle, told_grant};
use sqlx::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::waiting_session::{Position, WaitingSession, call_to_follow};
use crate::error::RequestError;
use crate::idle::Idle;
use crate::server::Server;

/// How many claims of a client may wait in sessions of their own.
const SESSIONS: usize = 4;

/// C26: a session in which nobody has waited for this long is closed.
const IDLE_LIMIT: Duration = Duration::from_secs(10);

/// A claim queues after so long without a session, and polls: it may be the only one that cannot have a new one.
const STANDS_WITHIN: Duration = Duration::from_millis(200);

/// The pause before a lost session is replaced.
const RECONNECT_DELAY: Duration = Duration::from_millis(200);

/// The claims of a client that wait in sessions of their own.
pub(super) struct Chain {
    shared: Arc<Shared>,
    free: Arc<Semaphore>,
    tasks: Mutex<JoinSet<()>>,
}

struct Shared {
    server: Server,
    waits: Mutex<HashMap<OwnerId, Wait>>,
    idle: Idle<WaitingSession>,
}

/// A claim that waits.
struct Wait {
    /// Where it can be told, while its session holds the lock that stands for that.
    number: Option<i64>,
    /// Dropped, it ends the wait.
    _ends: watch::Sender<()>,
}

/// A session that stands for a claim, where it can be told by this number.
pub(super) struct Stand {
    session: WaitingSession,
    pub(super) number: i64,
}

/// A session that a claim may wait in.
pub(super) type Seat = OwnedSemaphorePermit;

impl Chain {
    pub(super) fn new(server: Server) -> Self {
        let (waits, idle) = (Mutex::default(), Idle::new(IDLE_LIMIT));
        let shared = Arc::new(Shared { server, waits, idle });
        Self { shared, free: Arc::new(Semaphore::new(SESSIONS)), tasks: Mutex::default() }
    }

    /// A session for a claim, unless all are in use.
    pub(super) fn seat(&self) -> Option<Seat> {
        self.free.clone().try_acquire_owned().ok()
    }

    /// A session that stands for a claim which is about to queue; `None` if it cannot be had soon.
    pub(super) async fn stand(&self) -> Option<Stand> {
        timeout(STANDS_WITHIN, self.shared.stand()).await.ok()?.ok()
    }

    /// Lets a claim, which has a place in the queue, wait in the session that stands for it.
    pub(super) fn begin(&self, seat: Seat, claim: &Claim, waiter: &WaiterHandle, stand: Stand) {
        let (ends, ended) = watch::channel(());
        let wait = Wait { number: Some(stand.number), _ends: ends };
        self.shared.waits().insert(claim.owner, wait);
        let (claim, waiter) = (claim.clone(), waiter.clone());
        let task = Waiting { shared: self.shared.clone(), claim, waiter, ended, _seat: seat };
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task.run(stand));
    }

    /// Where a claim that waits can be told, if it can be; `None` if it does not wait in a session.
    pub(super) fn number(&self, owner: OwnerId) -> Option<Option<i64>> {
        self.shared.waits().get(&owner).map(|wait| wait.number)
    }

    /// Ends a claim's wait: its session goes to another, and the claim behind moves up.
    pub(super) fn end(&self, owner: OwnerId) {
        self.shared.waits().remove(&owner);
    }

    /// Closes the sessions in which nobody waits.
    pub(super) fn close_idle(&self) {
        self.shared.idle.clear();
    }
}

impl Shared {
    fn waits(&self) -> MutexGuard<'_, HashMap<OwnerId, Wait>> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn stand(&self) -> Result<Stand, RequestError> {
        let mut session = match self.idle.take_last() {
            Some(session) => session,
            None => WaitingSession::open(self.server.connections.options()).await?,
        };
        let (number, _) = uuid::Uuid::new_v4().as_u64_pair();
        let number = number as i64;
        session.stand_for(number).await.map_err(RequestError::Execute)?;
        Ok(Stand { session, number })
    }
}

/// Looks after one claim that waits.
struct Waiting {
    shared: Arc<Shared>,
    claim: Claim,
    waiter: WaiterHandle,
    ended: watch::Receiver<()>,
    _seat: Seat,
}

impl Waiting {
    async fn run(mut self, stand: Stand) {
        let mut stand = Some(stand);
        // The first session is given back also if the wait was over before it began.
        while stand.is_some() || !self.is_over() {
            let stand = match stand.take() {
                Some(stand) => Ok(stand),
                None => self.shared.stand().await,
            };
            if let Ok(mut stand) = stand
                && self.wait_in(&mut stand).await.is_ok()
                && stand.session.leave().await.is_ok()
            {
                self.shared.idle.put(stand.session, SESSIONS);
                break;
            }
            // The session is lost, and what was told meanwhile. The claim keeps its place, and looks for itself
            // (C28) until it has another session.
            self.is_told_at(None);
            self.waiter.try_again();
            let _ = timeout(RECONNECT_DELAY, self.ended.changed()).await;
        }
        self.shared.waits().remove(&self.claim.owner);
    }

    /// Waits until the claim is granted the lock or waits no more.
    async fn wait_in(&mut self, stand: &mut Stand) -> Result<(), Error> {
        let Stand { session, number } = stand;
        let (number, mut behind) = (*number, None);
        while !self.is_over() {
            let call = self.shared.server.call("follow");
            behind =
                match session.follow(&call_to_follow(call, &self.claim, number, behind)).await? {
                    Position::Behind(ahead) => Some(ahead),
                    Position::First => None,
                    Position::Over(message) => {
                        self.tell(message.as_deref());
                        return Ok(());
                    }
                };
            self.is_told_at(Some(number));
            if behind.is_none()
                && let Some(message) = self.listen(session).await?
            {
                self.tell(Some(&message));
                return Ok(());
            }
        }
        Ok(())
    }

    /// Waits for a message; `None` if the wait is over, or it is time to look (C28).
    async fn listen(&mut self, session: &mut WaitingSession) -> Result<Option<String>, Error> {
        tokio::select! {
            heard = session.heard(FALLBACK_POLL) => heard,
            _ = self.ended.changed() => Ok(None),
        }
    }

    /// Tells the claim of its grant, or to look for itself.
    fn tell(&self, message: Option<&str>) {
        // The next look of the claim begins anew.
        self.shared.waits().remove(&self.claim.owner);
        match message.and_then(told_grant) {
            Some((owner, grant)) if owner == self.claim.owner => self.waiter.granted(grant),
            Some(_) | None => self.waiter.try_again(),
        }
    }

    fn is_told_at(&self, number: Option<i64>) {
        if let Some(wait) = self.shared.waits().get_mut(&self.claim.owner) {
            wait.number = number;
        }
    }

    /// Whether the claim waits no more.
    fn is_over(&self) -> bool {
        self.ended.has_changed().is_err() || self.waiter.is_closed()
    }
}
