//! Sessions: one for each step of TTLs that the client uses, and for each half megabyte of paths on it.
//!
//! The server deletes the nodes of a session that was silent for its time-out. A session lasts a third longer
//! than the TTL of its holds. A member tells the leader of its sessions twice a tick. If the member dies in
//! between, the leader knows the session's last request but one, which is at most a third of the TTL older.
//!
//! Sessions are detached: a client that goes without a shutdown leaves them to their time-outs, and with them the
//! holds whose leases were handed on.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use lock_core::{BackendError, Clock, Outcome, SystemClock};
use parking_lot::Mutex;
use tokio::time::timeout;
use zookeeper_client::{Client, Connector, Error, SessionState};

use crate::error::{BACKEND, classify};
use crate::options::Target;
use crate::places::{Opening, Place, Room};
use crate::session::Session;

/// Time-out of the common session, for everything except claims, and of the sessions of marks of withdrawn claims.
const COMMON: Duration = Duration::from_secs(40);

/// Shortest time-out that is asked for. A connection is given up after two fifths of it without an answer, which a busy
/// server may need.
const SHORTEST: Duration = Duration::from_secs(1);

/// TTLs in seconds to which those of claims are rounded up for their session: each session is a connection, and servers
/// take 60 from a host (`maxClientCnxns`).
const STEPS: [u64; 29] = [
    1, 2, 3, 5, 7, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300, 450, 600, 900, 1_200, 1_800, 2_700,
    3_600, 5_400, 7_200, 10_800, 18_000, 28_800, 43_200, 86_400,
];

/// Most bytes of a claim's path beyond that of its lock: owner, kind, sequence, moves, and the length.
const BEYOND_LOCK: usize = 80;

/// Longest wait for a new connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// A connection that was silent for this long, or for two fifths of its session, is replaced by one to another
/// member.
const SILENCE: Duration = Duration::from_secs(2);

/// A session that was unused for this long is ended.
const IDLE_LIMIT: Duration = Duration::from_secs(15);

/// The sessions of one client, by their time-outs and numbers.
pub(crate) struct Sessions {
    target: Target,
    open: Mutex<HashMap<(Duration, usize), Arc<Opening>>>,
}

impl Sessions {
    pub(crate) fn new(target: Target) -> Self {
        Self { target, open: Mutex::default() }
    }

    /// Returns the session for everything except claims.
    pub(crate) async fn common(&self) -> Result<Arc<Session>, BackendError> {
        self.opened(COMMON, &self.room(COMMON, 0)).await
    }

    /// Returns a place for the mark with this path.
    pub(crate) async fn for_mark(&self, path: &str) -> Result<Arc<Place>, BackendError> {
        self.place(COMMON, path.len() + size_of::<u32>()).await
    }

    /// Returns a place for a claim with this TTL on the lock with this node.
    pub(crate) async fn for_ttl(
        &self,
        ttl: Duration,
        lock: &str,
    ) -> Result<Arc<Place>, BackendError> {
        let mut steps = STEPS.into_iter().map(Duration::from_secs);
        let step = steps.find(|step| *step >= ttl).unwrap_or(ttl);
        let lasts = step * 4 / 3 + Duration::from_millis(1);
        let place = self.place(lasts, lock.len() + BEYOND_LOCK).await?;
        if place.longest_ttl() >= ttl {
            return Ok(place);
        }
        let longest = place.longest_ttl();
        let context = format!(
            "a TTL of {ttl:?} is too long for this server, whose sessions allow {longest:?}: ask for less, or raise \
             maxSessionTimeout to four thirds of the TTL"
        );
        Err(BackendError::refusal(BACKEND, context))
    }

    /// Returns the shortest time-out that the server grants, or a second if that is longer.
    pub(crate) async fn shortest(&self) -> Result<Duration, BackendError> {
        // The session ends as soon as its client is dropped.
        match self.connected(self.connector(SHORTEST).await?).await {
            Ok(client) => Ok(client.session_timeout()),
            Err(error) => Err(self.unreachable(error).await),
        }
    }

    /// Returns true if the client has logged in.
    pub(crate) fn have_a_user(&self) -> bool {
        self.target.has_a_user()
    }

    async fn place(&self, lasts: Duration, bytes: usize) -> Result<Arc<Place>, BackendError> {
        let room = self.room(lasts, bytes);
        let session = self.opened(lasts, &room).await?;
        Ok(Place::new(session, room))
    }

    async fn opened(&self, lasts: Duration, room: &Room) -> Result<Arc<Session>, BackendError> {
        let session = room.opening.session.get_or_try_init(|| self.connect(lasts)).await?;
        *session.used.lock() = SystemClock.now();
        self.revive(lasts, session).await?;
        Ok(session.clone())
    }

    /// Gives the session another connection if it has none. The client library does so too, but waits longer
    /// after each try: it may be down for twice as long as the server was.
    async fn revive(&self, lasts: Duration, session: &Session) -> Result<(), BackendError> {
        if session.client().state() != SessionState::Disconnected {
            return Ok(());
        }
        let Ok(_reviving) = session.reviving.try_acquire() else { return Ok(()) };
        let connector = self.connector(lasts).await?.with_detached();
        let connector = connector.with_session(session.client().session().clone());
        match self.connected(connector).await {
            Ok(client) => {
                *session.client.lock() = client;
                Ok(())
            }
            Err(Error::SessionExpired) => {
                session.is_over.store(true, Ordering::Release);
                Err(classify(Error::SessionExpired))
            }
            Err(error) => Err(self.unreachable(error).await),
        }
    }

    /// Gives another connection to each session without one.
    pub(crate) async fn revive_all(&self) {
        let open: Vec<_> =
            self.open.lock().iter().map(|((lasts, _), open)| (*lasts, open.clone())).collect();
        let revived = open.iter().map(async |(lasts, open)| {
            if let Some(session) = open.session.get() {
                // The next look tries again.
                let _ = self.revive(*lasts, session).await;
            }
        });
        join_all(revived).await;
    }

    /// Sets bytes aside on the first session with this time-out that has room for them, or on a new one.
    fn room(&self, lasts: Duration, bytes: usize) -> Room {
        let (mut open, mut number) = (self.open.lock(), 0);
        loop {
            let opening = open.entry((lasts, number)).or_default();
            if opening.session.get().is_some_and(|session| session.is_over()) {
                *opening = Arc::default();
            }
            if let Some(room) = opening.room(bytes) {
                return room;
            }
            number += 1;
        }
    }

    async fn connect(&self, lasts: Duration) -> Result<Arc<Session>, BackendError> {
        let connector = self.connector(lasts).await?.with_detached();
        match self.connected(connector).await {
            Ok(client) => Ok(Arc::new(Session::new(client, self.target.hosts.clone()))),
            Err(error) => Err(self.unreachable(error).await),
        }
    }

    /// Error of a connection that could not be made: nothing was sent. The client library gives no cause.
    async fn unreachable(&self, error: Error) -> BackendError {
        if matches!(error, Error::AuthFailed | Error::BadArguments(_)) {
            return classify(error);
        }
        let context = match &self.target.certificates {
            _ if self.is_connected() => {
                "no server takes one more connection of this client, whose others stand: each step of TTLs and each \
                 half megabyte of paths has its own; look at maxClientCnxns, by default 60 for each host"
                    .to_owned()
            }
            Some(certificates) => {
                let doubt = certificates.doubt().await;
                format!(
                    "no server can be reached by TLS: if it speaks none, say zookeeper, not zookeepers; else look at \
                     its certificate, and who signed it; and {doubt}"
                )
            }
            None => {
                "no server can be reached: if it speaks TLS, say zookeepers, not zookeeper; if other clients of this \
                 host are connected, look at maxClientCnxns, by default 60"
                    .to_owned()
            }
        };
        BackendError::transient(BACKEND, Outcome::NotApplied, context, error.to_string())
            .at(&self.target.hosts)
    }

    /// Returns true if a session has a connection.
    fn is_connected(&self) -> bool {
        let is_connected = |opening: &Arc<Opening>| {
            let session = opening.session.get();
            session.is_some_and(|session| session.client().state() == SessionState::SyncConnected)
        };
        self.open.lock().values().any(is_connected)
    }

    /// Opens a connection.
    async fn connected(&self, connector: Connector) -> Result<Client, Error> {
        let connected = timeout(CONNECT_LIMIT, connector.connect(&self.target.servers)).await;
        connected.unwrap_or(Err(Error::Timeout))
    }

    /// Returns the settings of one connection, with the login and the certificates as they are now.
    async fn connector(&self, lasts: Duration) -> Result<Connector, BackendError> {
        let connector = self.target.connector().await;
        let connector = connector.map_err(|error| error.of_connection(BACKEND))?;
        #[cfg(feature = "tls")]
        let connector = match &self.target.certificates {
            Some(certificates) => connector.with_tls(crate::tls::options(certificates).await?),
            None => connector,
        };
        let connector = connector.with_session_timeout(lasts).with_connection_timeout(SILENCE);
        Ok(connector.with_fail_eagerly())
    }

    /// Ends the sessions that nobody has used for a while.
    pub(crate) async fn end_idle(&self) {
        let now = SystemClock.now();
        self.end(|is_common, session| !is_common && now.since(*session.used.lock()) >= IDLE_LIMIT)
            .await;
    }

    /// Ends the sessions without claims, and the common one if `all`.
    pub(crate) async fn end_unused(&self, all: bool) {
        self.end(|is_common, _| all || !is_common).await;
    }

    /// Ends sessions without nodes: each node of ours has a [`Place`] on its session.
    async fn end(&self, is_ended: impl Fn(bool, &Session) -> bool) {
        let is_ended = |key: &(Duration, usize), opening: &mut Arc<Opening>| {
            let unused = |session: &Arc<Session>| {
                Arc::strong_count(session) == 1 && is_ended(is_common(key), session)
            };
            Arc::strong_count(opening) == 1 && opening.session.get().is_some_and(unused)
        };
        let ended: Vec<_> = self.open.lock().extract_if(is_ended).collect();
        for ((lasts, _), opening) in ended {
            let session = opening.session.get();
            let Some(session) = session.map(|session| session.client().session().clone()) else {
                continue;
            };
            drop(opening);
            // A client that is not detached ends its session when it is dropped.
            if let Ok(connector) = self.connector(lasts).await {
                drop(self.connected(connector.with_session(session)).await);
            }
        }
    }

    /// Returns true if a session exists that may have to be ended later.
    pub(crate) fn has_idle(&self) -> bool {
        self.open.lock().keys().any(|key| !is_common(key))
    }
}

/// Returns true for the session of everything except claims.
fn is_common((lasts, number): &(Duration, usize)) -> bool {
    *lasts == COMMON && *number == 0
}
