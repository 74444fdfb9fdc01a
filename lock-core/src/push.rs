//! How a client hears of grants: one session of its own, opened when it first waits, and kept.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::{BackendError, FencingToken, Grant, OwnerId, ServerTime, Waker};

/// How long the opening of a session may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// How often to ask whether a silent session still lives, and how long to wait for the answer.
const PING_EVERY: Duration = Duration::from_secs(3);

/// How long a waiter waits for the session before it polls instead.
const OPEN_LIMIT: Duration = Duration::from_millis(300);

/// The pause before a lost session is opened again. Waiters poll meanwhile.
const REOPEN_AFTER: Duration = Duration::from_millis(200);

/// A server that tells of the grants it makes: the protocol of a session on which one hears them.
#[async_trait]
pub trait PushServer: Send + Sync + 'static {
    /// A session that hears.
    type Session: Send;
    /// Where the server is to tell of a grant, so that the session hears of it.
    type Address: Clone + Send + Sync + 'static;

    /// Opens a session, which hears whatever is told once this has returned.
    ///
    /// # Errors
    /// [`BackendError`]; one that is transient is followed by another try, any other is told to those
    /// who wait.
    async fn open(&self) -> Result<(Self::Session, Self::Address), BackendError>;

    /// Waits for the next message; `None` if the session is over, or may have missed one.
    ///
    /// # Cancel safety
    /// Dropping the future loses no message.
    async fn hear(&self, session: &mut Self::Session) -> Option<String>;

    /// Whether the session still lives: asked after a long silence.
    async fn is_alive(&self, session: &mut Self::Session) -> bool;
}

/// The session of one client on a server that pushes, and the waiters that it wakes.
///
/// A message has the form `owner:token:TTL in ms:server's time in µs`. Whoever takes a place in a
/// queue [listens](Self::listen) first, so that no grant is told before it is heard. A session that
/// is lost is opened again, and everyone looks at the server then, because what was told meanwhile is
/// gone.
pub struct Push<S: PushServer> {
    shared: Arc<Shared<S>>,
    task: Mutex<Option<JoinHandle<()>>>,
}

struct Shared<S: PushServer> {
    server: S,
    wakers: Mutex<HashMap<OwnerId, Waker>>,
    state: watch::Sender<State<S::Address>>,
}

#[derive(Clone)]
enum State<A> {
    /// Since when.
    Opening(Instant),
    Hearing(A),
    /// The server will never let us.
    Refused(BackendError),
}

impl<S: PushServer> Push<S> {
    /// No session yet.
    pub fn new(server: S) -> Self {
        let state = watch::Sender::new(State::Opening(Instant::now()));
        Self {
            shared: Arc::new(Shared { server, wakers: Mutex::default(), state }),
            task: Mutex::default(),
        }
    }

    /// Remembers whom to wake for `owner`, and returns where the server is to tell of it; `None` if
    /// it would not be heard.
    pub fn listen(&self, owner: OwnerId, waker: &Waker) -> Option<S::Address> {
        let State::Hearing(address) = self.shared.state.borrow().clone() else { return None };
        if !self.is_running() {
            return None;
        }
        let mut wakers = self.shared.wakers();
        if wakers.len() == wakers.capacity() {
            wakers.retain(|_, waker| !waker.is_closed());
        }
        wakers.insert(owner, waker.clone());
        Some(address)
    }

    /// Opens the session if it is not open, and returns once it hears, or when that takes or took
    /// longer than a waiter wants to go without a look at the lock.
    ///
    /// # Errors
    /// [`BackendError`] if the server will never let us hear.
    ///
    /// # Cancel safety
    /// If the future is dropped, the session is opened all the same.
    pub async fn open(&self) -> Result<(), BackendError> {
        self.ensure_running();
        let mut state = self.shared.state.subscribe();
        let end = match *state.borrow() {
            State::Opening(since) => since + OPEN_LIMIT,
            State::Hearing(_) | State::Refused(_) => Instant::now() + OPEN_LIMIT,
        };
        let settled = timeout_at(end, state.wait_for(|state| !matches!(state, State::Opening(_))));
        match settled.await.ok().and_then(Result::ok).as_deref() {
            Some(State::Refused(error)) => Err(error.clone()),
            Some(State::Opening(_) | State::Hearing(_)) | None => Ok(()),
        }
    }

    /// Forgets whom to wake for `owner`.
    pub fn forget(&self, owner: OwnerId) {
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

impl<S: PushServer> Drop for Push<S> {
    fn drop(&mut self) {
        if let Some(task) = self.task.get_mut().unwrap_or_else(PoisonError::into_inner) {
            task.abort();
        }
    }
}

impl<S: PushServer> fmt::Debug for Push<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Push").field("waiters", &self.shared.wakers().len()).finish_non_exhaustive()
    }
}

impl<S: PushServer> Shared<S> {
    /// Opens a session, hears, and begins again when it ends; returns when it is refused.
    async fn run(self: Arc<Self>) {
        loop {
            match timeout(CONNECT_LIMIT, self.server.open()).await {
                Ok(Ok((session, address))) => self.hear(session, address).await,
                Ok(Err(error)) if !error.is_transient() => {
                    self.state.send_replace(State::Refused(error));
                    return;
                }
                Ok(Err(_)) | Err(_) => {}
            }
            sleep(REOPEN_AFTER).await;
        }
    }

    async fn hear(&self, mut session: S::Session, address: S::Address) {
        self.hearing(address);
        loop {
            match timeout(PING_EVERY, self.server.hear(&mut session)).await {
                Ok(Some(message)) => self.wake(&message),
                Ok(None) => break,
                Err(_) => match timeout(PING_EVERY, self.server.is_alive(&mut session)).await {
                    Ok(true) => {}
                    Ok(false) | Err(_) => break,
                },
            }
        }
        self.state.send_replace(State::Opening(Instant::now()));
        self.wakers().values().for_each(Waker::try_again);
    }

    /// Lets waiters in, and has those look again who listened before: what was told to them meanwhile
    /// is gone.
    fn hearing(&self, address: S::Address) {
        let listening = self.wakers();
        self.state.send_replace(State::Hearing(address));
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

    fn wakers(&self) -> MutexGuard<'_, HashMap<OwnerId, Waker>> {
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn parse(message: &str) -> Option<(OwnerId, Grant)> {
    let mut parts = message.split(':');
    let owner = parts.next()?.parse().ok()?;
    let token: FencingToken = parts.next()?.parse().ok()?;
    let ttl = Duration::from_millis(parts.next()?.parse().ok()?);
    let at = ServerTime(Duration::from_micros(parts.next()?.parse().ok()?));
    Some((owner, Grant::new(token, ttl).at(at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_as_it_is_written() {
        let owner = OwnerId::random();
        let message = format!("{}:7:3000:1795251431457582", owner.expose());
        let (told, grant) = parse(&message).expect("a grant");
        assert_eq!((told, grant.token.get(), grant.ttl), (owner, 7, Duration::from_secs(3)));
        assert_eq!(grant.at, Some(ServerTime(Duration::from_micros(1_795_251_431_457_582))));
        for bad in ["", ":::", "x:7:3000:1", &message[..40], &format!("{}:0:1:1", owner.expose())] {
            assert!(parse(bad).is_none(), "{bad}");
        }
    }
}
