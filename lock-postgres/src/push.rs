//! One session that listens for the grants of this client.
//!
//! Its channel is named by a number that nobody can guess, and it holds the advisory lock of that
//! number: whoever would grant a lock to one of our waiters sees by it that the session still lives.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::{FencingToken, Grant, OwnerId, ServerTime, Waker};
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use sqlx::{AssertSqlSafe, Error, Executor};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::connections::CONNECT_LIMIT;

/// How often to ask whether the session still lives, and how long to wait for the answer.
const PING_EVERY: Duration = Duration::from_secs(3);

/// How long a waiter waits for the session before it polls instead.
const OPEN_LIMIT: Duration = Duration::from_millis(300);

/// The pause before a lost session is opened again. Waiters poll meanwhile.
const REOPEN_AFTER: Duration = Duration::from_millis(200);

/// The listening session of one client: opened when it first waits, and kept.
pub(crate) struct Push {
    shared: Arc<Shared>,
    task: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    options: PgConnectOptions,
    wakers: Mutex<HashMap<OwnerId, Waker>>,
    state: watch::Sender<State>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Since when.
    Opening(Instant),
    /// On the channel of this number.
    Listening(i64),
}

impl Push {
    pub(crate) fn new(options: PgConnectOptions) -> Self {
        let state = watch::Sender::new(State::Opening(Instant::now()));
        let shared = Arc::new(Shared { options, wakers: Mutex::default(), state });
        Self { shared, task: Mutex::default() }
    }

    /// Remembers whom to wake for `owner`, and returns the number of the session that is to hear of
    /// it; `None` if there is none.
    pub(crate) fn listen(&self, owner: OwnerId, waker: &Waker) -> Option<i64> {
        let State::Listening(session) = *self.shared.state.borrow() else { return None };
        if !self.is_running() {
            return None;
        }
        let mut wakers = self.shared.wakers();
        if wakers.len() == wakers.capacity() {
            wakers.retain(|_, waker| !waker.is_closed());
        }
        wakers.insert(owner, waker.clone());
        Some(session)
    }

    /// Opens the session if it is not open, and returns once it listens, or when that takes or took
    /// longer than a waiter wants to go without a look at the lock.
    pub(crate) async fn open(&self) {
        self.ensure_running();
        let mut state = self.shared.state.subscribe();
        let end = match *state.borrow() {
            State::Opening(since) => since + OPEN_LIMIT,
            State::Listening(_) => return,
        };
        let listening = state.wait_for(|state| matches!(state, State::Listening(_)));
        let _ = timeout_at(end, listening).await;
    }

    /// Forgets whom to wake for `owner`.
    pub(crate) fn forget(&self, owner: OwnerId) {
        self.shared.wakers().remove(&owner);
    }

    fn is_running(&self) -> bool {
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        task.as_ref().is_some_and(|task| !task.is_finished())
    }

    fn ensure_running(&self) {
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if task.as_ref().is_none_or(JoinHandle::is_finished) {
            self.shared.state.send_replace(State::Opening(Instant::now()));
            *task = Some(tokio::spawn(self.shared.clone().run()));
        }
    }
}

impl Drop for Push {
    fn drop(&mut self) {
        if let Some(task) = self.task.get_mut().unwrap_or_else(PoisonError::into_inner) {
            task.abort();
        }
    }
}

impl Shared {
    /// Opens the session, listens, and begins again when it ends.
    async fn run(self: Arc<Self>) {
        loop {
            if let Ok(Ok((session, number))) = timeout(CONNECT_LIMIT, self.subscribe()).await {
                self.listen(session, number).await;
            }
            sleep(REOPEN_AFTER).await;
        }
    }

    async fn subscribe(&self) -> Result<(PgListener, i64), Error> {
        let mut session = session(&self.options).await?;
        let (number, _) = uuid::Uuid::new_v4().as_u64_pair();
        let number = number as i64;
        let lock = format!("SELECT pg_try_advisory_lock(({number})::bigint)");
        session.execute(sqlx::raw_sql(AssertSqlSafe(lock))).await?;
        session.listen(&channel(number)).await?;
        Ok((session, number))
    }

    async fn listen(&self, mut session: PgListener, number: i64) {
        self.listening(number);
        loop {
            match timeout(PING_EVERY, session.try_recv()).await {
                Ok(Ok(Some(message))) => self.wake(message.payload()),
                Ok(Ok(None) | Err(_)) => break,
                Err(_) => match timeout(PING_EVERY, session.execute("SELECT 1")).await {
                    Ok(Ok(_)) => {}
                    Ok(Err(_)) | Err(_) => break,
                },
            }
        }
        self.state.send_replace(State::Opening(Instant::now()));
        self.wake_all();
    }

    /// Lets waiters in, and has those look again who listened before: what was sent to them meanwhile
    /// is gone.
    fn listening(&self, number: i64) {
        let listening = self.wakers();
        self.state.send_replace(State::Listening(number));
        listening.values().for_each(Waker::try_again);
    }

    /// Delivers the message of a grant. One that nobody waits for any more is withdrawn by whoever
    /// gave it up.
    fn wake(&self, message: &str) {
        if let Some((owner, grant)) = parse(message)
            && let Some(waker) = self.wakers().remove(&owner)
        {
            waker.granted(grant);
        }
    }

    fn wake_all(&self) {
        self.wakers().values().for_each(Waker::try_again);
    }

    fn wakers(&self) -> MutexGuard<'_, HashMap<OwnerId, Waker>> {
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session that tells at once when it ends, and is not replaced behind our back: the driver makes
/// one from a pool only, so it has a pool of its own.
pub(crate) async fn session(options: &PgConnectOptions) -> Result<PgListener, Error> {
    let pool = PgPoolOptions::new().max_connections(1).max_lifetime(None).idle_timeout(None);
    let pool = pool.acquire_timeout(CONNECT_LIMIT).connect_with(options.clone()).await?;
    let mut session = PgListener::connect_with(&pool).await?;
    session.ignore_pool_close_event(true);
    session.eager_reconnect(false);
    Ok(session)
}

/// As the function that hands over writes it.
fn channel(number: i64) -> String {
    format!("leasehold_{number:x}")
}

/// Reads "owner:token:TTL in ms:server's time in µs".
fn parse(message: &str) -> Option<(OwnerId, Grant)> {
    let mut parts = message.split(':');
    let owner = parts.next()?.parse().ok()?;
    let token: FencingToken = parts.next()?.parse().ok()?;
    let ttl = Duration::from_millis(parts.next()?.parse().ok()?);
    let at = ServerTime(Duration::from_micros(parts.next()?.parse().ok()?));
    Some((owner, Grant::new(token, ttl).at(at)))
}
