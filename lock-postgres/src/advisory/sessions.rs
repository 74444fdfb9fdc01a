//! The sessions of one client: where a claim gets one, and where one goes that holds nothing any more.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sqlx::Error;
use sqlx::postgres::PgConnectOptions;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::RequestError;
use crate::session::LockSession;

/// A session that nobody used for this long is closed when another is taken or put back.
const IDLE_LIMIT: Duration = Duration::from_secs(60);

pub(super) struct Sessions {
    options: PgConnectOptions,
    /// Some attempts may be under way at a time, and as many sessions are kept that hold nothing.
    at_most: usize,
    attempts: Arc<Semaphore>,
    idle: Mutex<Vec<(LockSession, Instant)>>,
}

impl Sessions {
    pub(super) fn new(options: PgConnectOptions, at_most: usize) -> Self {
        Self {
            options,
            at_most,
            attempts: Arc::new(Semaphore::new(at_most)),
            idle: Mutex::default(),
        }
    }

    /// A session that holds nothing, one that was kept or a new one; and a turn at an attempt, which ends when it
    /// is dropped.
    pub(super) async fn get(&self) -> Result<(LockSession, OwnedSemaphorePermit), RequestError> {
        let turn = self.attempts.clone().acquire_owned().await;
        let turn = turn.map_err(|_| RequestError::Connect(Error::PoolClosed))?;
        while let Some(mut kept) = self.take() {
            if !kept.is_over() {
                return Ok((kept, turn));
            }
        }
        Ok((LockSession::open(&self.options).await?, turn))
    }

    /// The one that was used last, so that those that are not needed come to be closed.
    fn take(&self) -> Option<LockSession> {
        self.fresh().pop().map(|(session, _)| session)
    }

    /// C21: keeps a session that holds nothing, and of which no answer is outstanding.
    pub(super) fn put_back(&self, session: LockSession) {
        let mut idle = self.fresh();
        idle.push((session, Instant::now()));
        if idle.len() > self.at_most {
            idle.remove(0);
        }
    }

    /// Closes all that hold nothing: one like them was silent.
    pub(super) fn give_up_idle(&self) {
        self.idle().clear();
    }

    fn fresh(&self) -> MutexGuard<'_, Vec<(LockSession, Instant)>> {
        let mut idle = self.idle();
        idle.retain(|(_, since)| since.elapsed() < IDLE_LIMIT);
        idle
    }

    fn idle(&self) -> MutexGuard<'_, Vec<(LockSession, Instant)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
