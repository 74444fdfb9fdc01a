//! Receives grants for a client on one connection of its own. The connection opens when the client first waits, and
//! closes when it has not waited for a while.

use std::fmt;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use foldhash::HashMap;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::answers::Grant;
use super::waiter::WaiterHandle;
use crate::model::{BackendError, FencingToken, OwnerId, ServerTime, Slots};
use crate::sync::{Mutex, MutexGuard, locked};

/// Longest time that connecting may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// Interval of pings on a silent connection, and the longest wait for the reply.
const PING_INTERVAL: Duration = Duration::from_secs(3);

/// A connection that nobody has used for this long is closed (C26).
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest wait of a waiter for the connection; after it the waiter polls instead.
const OPEN_LIMIT: Duration = Duration::from_millis(300);

/// Pause before a lost connection is opened again. It doubles after each failure, so that the clients of a full server
/// leave it in peace. Waiters poll meanwhile.
const RECONNECT_DELAY: Duration = Duration::from_millis(200);

/// Longest pause before a connection is opened again.
const LONGEST_DELAY: Duration = Duration::from_secs(4);

/// A server that pushes its grants: the protocol of the connection that receives them.
#[async_trait]
pub trait NotificationTransport: Send + Sync + 'static {
    /// A connection that receives messages.
    type Connection: Send;
    /// The destination of the server's messages, so that the connection receives them.
    type Address: Clone + Send + Sync + 'static;

    /// Opens a connection. It receives every message that is sent after this has returned.
    ///
    /// # Errors
    /// [`BackendError`]. After a transient error another try follows; any other error is reported to the waiters.
    async fn connect(&self) -> Result<(Self::Connection, Self::Address), BackendError>;

    /// Waits for the next message; `None` if the connection is over, or may have missed one.
    ///
    /// # Cancel safety
    /// Dropping the future loses no message.
    async fn recv(&self, connection: &mut Self::Connection) -> Option<String>;

    /// Returns true if the connection still lives. Called after a long silence.
    async fn ping(&self, connection: &mut Self::Connection) -> bool;

    /// Returns true if the connection has another use than grants: then it stays open.
    fn is_in_use(&self) -> bool {
        false
    }
}

/// The one connection on which a client hears of grants (C26), and the waiters that it wakes.
///
/// A message has the form `owner:token:TTL in ms:server's time in µs`. If the grant is
/// [one of n](crate::Kind::OneOf), `:slots` follows, with commas between the slots. A message with an owner alone
/// tells the waiter to try again. A client [registers](Self::register) before it takes a place in a queue, so it
/// misses no grant. A lost connection is opened again. Every waiter then looks at the server, because the messages of
/// the meantime are lost (C28).
///
/// ```text
///            register, connect             no waiter for a while
///   Closed ───────────────────▶ Opening ─▶ Listening ──────────▶ Closed
///                                  ▲           │ lost
///                                  └───────────┘
/// ```
pub struct Notifications<T: NotificationTransport> {
    shared: Arc<Shared<T>>,
    task: Mutex<Option<JoinHandle<()>>>,
}

struct Shared<T: NotificationTransport> {
    transport: T,
    waiters: Mutex<Waiters>,
    state: watch::Sender<State<T::Address>>,
}

/// The waiters to wake, and the time when a waiter last came or left.
struct Waiters {
    by_owner: HashMap<OwnerId, WaiterHandle>,
    used_at: Instant,
}

impl Waiters {
    fn insert(&mut self, owner: OwnerId, waiter: WaiterHandle) {
        let is_full = self.by_owner.len() == self.by_owner.capacity();
        if is_full && !self.by_owner.contains_key(&owner) {
            self.by_owner.retain(|_, waiter| !waiter.is_closed());
        }
        self.by_owner.insert(owner, waiter);
        self.used_at = Instant::now();
    }

    fn remove(&mut self, owner: OwnerId) -> Option<WaiterHandle> {
        self.used_at = Instant::now();
        self.by_owner.remove(&owner)
    }

    fn are_none(&mut self) -> bool {
        self.by_owner.retain(|_, waiter| !waiter.is_closed());
        self.by_owner.is_empty()
    }

    fn have_all_try_again(&self) {
        self.by_owner.values().for_each(WaiterHandle::try_again);
    }
}

#[derive(Clone)]
enum State<A> {
    Closed,
    /// Opening since this time.
    Opening(Instant),
    Listening(A),
    /// The server refuses the connection for ever.
    Refused(BackendError),
}

impl<T: NotificationTransport> Notifications<T> {
    /// No connection yet.
    pub fn new(transport: T) -> Self {
        let waiters = Waiters { by_owner: HashMap::default(), used_at: Instant::now() };
        let (waiters, (state, _)) = (Mutex::new(waiters), watch::channel(State::Closed));
        Self { shared: Arc::new(Shared { transport, waiters, state }), task: Mutex::default() }
    }

    /// Registers `waiter` for `owner`, and returns the destination of its messages; `None` if the connection would
    /// not receive them.
    pub fn register(&self, owner: OwnerId, waiter: &WaiterHandle) -> Option<T::Address> {
        if !self.is_running() {
            return None;
        }
        let mut waiters = self.shared.waiters();
        // The state is read under the lock of the waiters, so that no connection closes in between.
        let State::Listening(address) = self.shared.state.borrow().clone() else { return None };
        waiters.insert(owner, waiter.clone());
        Some(address)
    }

    /// Opens the connection if it is not open. Returns once the connection receives messages, or has been opening for
    /// longer than a waiter waits without a look at the lock.
    ///
    /// # Errors
    /// [`BackendError`] if the server refuses the connection for ever.
    ///
    /// # Cancel safety
    /// If the future is dropped, the connection is still opened.
    pub async fn open(&self) -> Result<(), BackendError> {
        self.ensure_running();
        let mut state = self.shared.state.subscribe();
        let end = match *state.borrow() {
            State::Opening(since) => since + OPEN_LIMIT,
            State::Closed | State::Listening(_) | State::Refused(_) => Instant::now() + OPEN_LIMIT,
        };
        let settled = timeout_at(end, state.wait_for(|state| !matches!(state, State::Opening(_))));
        match settled.await.ok().and_then(Result::ok).as_deref() {
            Some(State::Refused(error)) => Err(error.clone()),
            Some(State::Closed | State::Opening(_) | State::Listening(_)) | None => Ok(()),
        }
    }

    /// Removes the waiter of `owner`.
    pub fn unregister(&self, owner: OwnerId) {
        self.shared.waiters().remove(owner);
    }

    fn is_running(&self) -> bool {
        let task = locked(&self.task);
        task.as_ref().is_some_and(|task| !task.is_finished())
    }

    fn ensure_running(&self) {
        let mut task = locked(&self.task);
        let closed = matches!(*self.shared.state.borrow(), State::Closed);
        // A task that has closed its connection may still be running; it does nothing more.
        if closed || task.as_ref().is_none_or(JoinHandle::is_finished) {
            self.shared.state.send_replace(State::Opening(Instant::now()));
            // C26: one session, however many locks the client waits for.
            *task = Some(tokio::spawn(self.shared.clone().run()));
        }
    }
}

impl<T: NotificationTransport> Drop for Notifications<T> {
    fn drop(&mut self) {
        if let Some(task) = self.task.get_mut().unwrap_or_else(PoisonError::into_inner) {
            task.abort();
        }
    }
}

impl<T: NotificationTransport> fmt::Debug for Notifications<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiters = self.shared.waiters().by_owner.len();
        f.debug_struct("Notifications").field("waiters", &waiters).finish_non_exhaustive()
    }
}

/// Cause of a connection's end.
enum End {
    /// The connection was lost, or may have missed a message.
    Lost,
    /// Nobody waits.
    Idle,
}

impl<T: NotificationTransport> Shared<T> {
    /// Connects, listens, and begins again when the connection is lost; returns when the server refuses,
    /// or nobody waits any more. A connection that cannot be opened is left to the next waiter, on its runtime.
    async fn run(self: Arc<Self>) {
        let mut delay = RECONNECT_DELAY;
        loop {
            match timeout(CONNECT_LIMIT, self.transport.connect()).await {
                Ok(Ok((connection, address))) => {
                    delay = RECONNECT_DELAY;
                    if let End::Idle = self.listen(connection, address).await {
                        return;
                    }
                }
                Ok(Err(error)) if !error.is_transient() => {
                    self.state.send_replace(State::Refused(error));
                    return;
                }
                Ok(Err(_)) | Err(_) if self.close_if_idle() => return,
                Ok(Err(_)) | Err(_) => {}
            }
            sleep(delay).await;
            delay = LONGEST_DELAY.min(delay * 2);
        }
    }

    async fn listen(&self, mut connection: T::Connection, address: T::Address) -> End {
        self.set_listening(address);
        loop {
            match timeout(PING_INTERVAL, self.transport.recv(&mut connection)).await {
                Ok(Some(message)) => self.wake(&message),
                Ok(None) => break,
                Err(_) if self.close_if_idle() => return End::Idle,
                Err(_) => {
                    match timeout(PING_INTERVAL, self.transport.ping(&mut connection)).await {
                        Ok(true) => {}
                        Ok(false) | Err(_) => break,
                    }
                }
            }
        }
        self.state.send_replace(State::Opening(Instant::now()));
        self.waiters().have_all_try_again();
        End::Lost
    }

    /// Admits new waiters, and wakes the earlier ones to look again: their messages of the meantime are lost.
    fn set_listening(&self, address: T::Address) {
        let waiters = self.waiters();
        self.state.send_replace(State::Listening(address));
        waiters.have_all_try_again();
    }

    /// Refuses new waiters and closes, unless the connection is in use, a waiter came or left lately, or it has not
    /// been opening for long.
    fn close_if_idle(&self) -> bool {
        let mut waiters = self.waiters();
        let since = match *self.state.borrow() {
            State::Opening(since) => since,
            _ => waiters.used_at,
        };
        let is_idle =
            since.elapsed() >= IDLE_TIMEOUT && waiters.are_none() && !self.transport.is_in_use();
        if is_idle {
            self.state.send_replace(State::Closed);
        }
        is_idle
    }

    /// Delivers a grant, or a signal to try again. A grant without a waiter is withdrawn by the client that gave up.
    fn wake(&self, message: &str) {
        if let Some((owner, grant)) = parse(message)
            && let Some(waiter) = self.waiters().remove(owner)
        {
            waiter.granted(grant);
        } else if let Ok(owner) = message.parse()
            && let Some(waiter) = self.waiters().by_owner.get(&owner)
        {
            waiter.try_again();
        }
    }

    fn waiters(&self) -> MutexGuard<'_, Waiters> {
        locked(&self.waiters)
    }
}

fn parse(message: &str) -> Option<(OwnerId, Grant)> {
    let mut parts = message.split(':');
    let owner = parts.next()?.parse().ok()?;
    let token: FencingToken = parts.next()?.parse().ok()?;
    let ttl = Duration::from_millis(parts.next()?.parse().ok()?);
    let at = ServerTime(Duration::from_micros(parts.next()?.parse().ok()?));
    let slots = parts.next().map_or(Some(Slots::NONE), Slots::parse)?;
    Some((owner, Grant::new(token, ttl).at(at).with_slots(slots)))
}

#[cfg(test)]
mod tests;
