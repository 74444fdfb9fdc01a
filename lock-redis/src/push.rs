//! One connection on which the server tells this client of its grants.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use lock_core::{FencingToken, Grant, OwnerId, ServerTime, Waker};
use redis::aio::PubSub;
use redis::{Client, ErrorKind, RedisError, ServerErrorKind};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::connection::CONNECT_LIMIT;
use crate::error::Failure;

/// How often to ask whether the connection still lives, and how long to wait for the answer.
const PING_EVERY: Duration = Duration::from_secs(3);

/// How long a waiter waits for the connection before it polls instead.
const OPEN_LIMIT: Duration = Duration::from_millis(300);

/// The pause before a lost connection is opened again. Waiters poll meanwhile.
const REOPEN_AFTER: Duration = Duration::from_millis(200);

/// The push connection of one client: opened when it first waits, and kept.
pub(crate) struct Push {
    shared: Arc<Shared>,
    task: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    client: Client,
    channel: String,
    wakers: Mutex<HashMap<OwnerId, Waker>>,
    state: watch::Sender<State>,
}

#[derive(Clone, Debug)]
enum State {
    /// Since when.
    Opening(Instant),
    Subscribed,
    /// The server will never let us subscribe.
    Refused(RedisError),
}

impl Push {
    pub(crate) fn new(client: Client) -> Self {
        let channel = format!("leasehold-{}", uuid::Uuid::new_v4().as_simple());
        let (wakers, state) =
            (Mutex::default(), watch::Sender::new(State::Opening(Instant::now())));
        let shared = Arc::new(Shared { client, channel, wakers, state });
        Self { shared, task: Mutex::default() }
    }

    /// Remembers whom to wake for `owner`, and returns the channel on which the server is to say so;
    /// `None` if it would not reach us there.
    pub(crate) fn listen(&self, owner: OwnerId, waker: &Waker) -> Option<&str> {
        let subscribed = matches!(*self.shared.state.borrow(), State::Subscribed);
        if !subscribed || !self.is_running() {
            return None;
        }
        let mut wakers = self.shared.wakers();
        if wakers.len() == wakers.capacity() {
            wakers.retain(|_, waker| !waker.is_closed());
        }
        wakers.insert(owner, waker.clone());
        Some(&self.shared.channel)
    }

    /// Opens the connection if it is not open, and returns once it is subscribed, or when that takes
    /// or took longer than a waiter wants to go without a look at the lock.
    pub(crate) async fn open(&self) -> Result<(), Failure> {
        self.ensure_running();
        let mut state = self.shared.state.subscribe();
        let end = match *state.borrow() {
            State::Opening(since) => since + OPEN_LIMIT,
            State::Subscribed | State::Refused(_) => Instant::now() + OPEN_LIMIT,
        };
        let settled = timeout_at(end, state.wait_for(|state| !matches!(state, State::Opening(_))));
        match settled.await.ok().and_then(Result::ok).as_deref() {
            Some(State::Refused(error)) => Err(Failure::Asking(error.clone())),
            Some(State::Opening(_) | State::Subscribed) | None => Ok(()),
        }
    }

    /// The channel on which the server tells this client of its grants.
    pub(crate) fn channel(&self) -> &str {
        &self.shared.channel
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
    /// Subscribes, listens, and begins again when the connection fails; ends when it is refused.
    async fn run(self: Arc<Self>) {
        loop {
            match timeout(CONNECT_LIMIT, self.subscribe()).await {
                Ok(Ok(connection)) => self.listen(connection).await,
                Ok(Err(error)) if is_refusal(&error) => {
                    self.state.send_replace(State::Refused(error));
                    return;
                }
                Ok(Err(_)) | Err(_) => {}
            }
            sleep(REOPEN_AFTER).await;
        }
    }

    async fn subscribe(&self) -> Result<PubSub, RedisError> {
        let mut connection = self.client.get_async_pubsub().await?;
        connection.subscribe(&self.channel).await?;
        Ok(connection)
    }

    async fn listen(&self, connection: PubSub) {
        let (mut sink, mut messages) = connection.split();
        self.subscribed();
        loop {
            match timeout(PING_EVERY, messages.next()).await {
                Ok(Some(message)) => self.wake(message.get_payload_bytes()),
                Ok(None) => break,
                Err(_) => match timeout(PING_EVERY, sink.ping::<redis::Value>()).await {
                    Ok(Ok(_)) => {}
                    Ok(Err(_)) | Err(_) => break,
                },
            }
        }
        self.state.send_replace(State::Opening(Instant::now()));
        self.wake_all();
    }

    /// Lets waiters in, and has those look again who listened before: what was published to them
    /// meanwhile is gone.
    fn subscribed(&self) {
        let listening = self.wakers();
        self.state.send_replace(State::Subscribed);
        listening.values().for_each(Waker::try_again);
    }

    /// Delivers the message of a grant. One that nobody waits for any more is withdrawn by whoever
    /// gave it up.
    fn wake(&self, message: &[u8]) {
        if let Some((owner, grant)) = str::from_utf8(message).ok().and_then(parse)
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

fn is_refusal(error: &RedisError) -> bool {
    let no_right = ErrorKind::Server(ServerErrorKind::NoPerm);
    error.kind() == no_right || error.kind() == ErrorKind::AuthenticationFailed
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
