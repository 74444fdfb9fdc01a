//! Sessions: one for each TTL that the client uses.
//!
//! The server deletes the nodes of a session that was silent for its time-out. A session lasts a third longer
//! than the TTL of its holds. A member tells the leader of its sessions twice a tick. If the member dies in
//! between, the leader knows the session's last request but one, which is at most a third of the TTL older.
//!
//! Sessions are detached: a client that goes without a shutdown leaves them to their time-outs, and with them the
//! holds whose leases were handed on.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use lock_core::{BackendError, Clock, Moment, Outcome, SystemClock};
use parking_lot::Mutex;
use tokio::sync::OnceCell;
use tokio::time::timeout;
use zookeeper_client::{Client, Connector, Error, SessionInfo, SessionState};

use crate::error::{BACKEND, classify, ends_session};
use crate::options::Target;
use crate::store::Found;

/// Time-out of the common session, for everything except claims: it carries the marks of withdrawn claims.
const COMMON: Duration = Duration::from_secs(40);

/// Shortest time-out that is asked for. A connection is given up after two fifths of it without an answer, which a busy
/// server may need.
const SHORTEST: Duration = Duration::from_secs(1);

/// Longest wait for a new connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// A connection that was silent for this long, or for two fifths of its session, is replaced by one to another
/// member.
const SILENCE: Duration = Duration::from_secs(2);

/// A session that was unused for this long is ended.
const IDLE_LIMIT: Duration = Duration::from_secs(15);

/// A session, with its connection. It counts as over once a request fails for that reason.
pub(crate) struct Session {
    client: Mutex<Client>,
    /// Hosts and ports of the ensemble, for errors.
    servers: String,
    lasts: Duration,
    is_over: AtomicBool,
    used: Mutex<Moment>,
    reviving: AtomicBool,
}

/// Allows the next try to revive a session when it is dropped.
struct Reviving<'a>(&'a AtomicBool);

impl Drop for Reviving<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Session {
    fn new(client: Client, servers: String) -> Self {
        let (lasts, used) = (client.session_timeout(), Mutex::new(SystemClock.now()));
        let (is_over, reviving) = Default::default();
        Self { client: Mutex::new(client), servers, lasts, is_over, used, reviving }
    }

    /// Returns its present connection.
    pub(crate) fn client(&self) -> Client {
        self.client.lock().clone()
    }

    /// Returns the longest TTL of a hold on this session.
    pub(crate) fn longest_ttl(&self) -> Duration {
        self.lasts * 3 / 4
    }

    /// Returns true if the node ends with this session.
    pub(crate) fn has(&self, node: &Found) -> bool {
        node.stat.ephemeral_owner == self.client().session_id().0
    }

    /// Classifies the error of a request on this session.
    pub(crate) fn failed(&self, error: impl Into<Error>) -> BackendError {
        let error = error.into();
        if ends_session(&error) {
            self.is_over.store(true, Ordering::Release);
        }
        let error = classify(error);
        if error.is_transient() { error.at(&self.servers) } else { error }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire) || self.client().state().is_terminated()
    }
}

#[cfg(test)]
impl Session {
    /// A session on a server that accepts it and answers its first ping, and then nothing.
    pub(crate) async fn mute() -> Arc<Self> {
        use std::io::{Read as _, Write as _};

        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("a bound port has an address");
        // Protocol 0, a time-out of a minute, session 7, a password of 16 bytes, not read-only.
        let accepted = [0_u32, 60_000, 0, 7, 16, 0, 0, 0, 0].map(u32::to_be_bytes).concat();
        // The number of pings, the last transaction, no error.
        let alive = [u32::MAX - 1, 0, 0, 0].map(u32::to_be_bytes).concat();
        std::thread::spawn(move || {
            let (mut connection, _) = listener.accept().expect("a connection");
            for answer in [[&accepted[..], &[0]].concat(), alive] {
                let mut length = [0; 4];
                connection.read_exact(&mut length).expect("a request");
                let mut request = vec![0; u32::from_be_bytes(length) as usize];
                connection.read_exact(&mut request).expect("a request");
                let length = u32::try_from(answer.len()).expect("a short answer").to_be_bytes();
                connection.write_all(&[&length[..], &answer].concat()).expect("a client");
            }
            let _ = connection.read_to_end(&mut Vec::new());
        });
        let client = Client::connect(&address.to_string()).await.expect("a session");
        Arc::new(Self::new(client, address.to_string()))
    }
}

type Opening = Arc<OnceCell<Arc<Session>>>;

/// The sessions of one client, by their time-outs.
pub(crate) struct Sessions {
    target: Target,
    open: Mutex<HashMap<Duration, Opening>>,
}

impl Sessions {
    pub(crate) fn new(target: Target) -> Self {
        Self { target, open: Mutex::default() }
    }

    /// Returns the session for everything except claims.
    pub(crate) async fn common(&self) -> Result<Arc<Session>, BackendError> {
        self.session(COMMON).await
    }

    /// Returns the session of holds with this TTL.
    pub(crate) async fn for_ttl(&self, ttl: Duration) -> Result<Arc<Session>, BackendError> {
        let lasts = (ttl * 4 / 3 + Duration::from_millis(1)).max(SHORTEST);
        let session = self.session(lasts).await?;
        if session.longest_ttl() >= ttl {
            return Ok(session);
        }
        let longest = session.longest_ttl();
        let context = format!(
            "a TTL of {ttl:?} is too long for this server, whose sessions allow {longest:?}: ask for less, or raise \
             maxSessionTimeout to four thirds of the TTL"
        );
        Err(BackendError::refusal(BACKEND, context))
    }

    /// Returns the shortest time-out that the server grants, or a second if that is longer.
    pub(crate) async fn shortest(&self) -> Result<Duration, BackendError> {
        // The session ends as soon as its client is dropped.
        let connecting = self.connector(SHORTEST).connect(&self.target.servers);
        let client = timeout(CONNECT_LIMIT, connecting).await.unwrap_or(Err(Error::Timeout));
        Ok(client.map_err(|error| self.unreachable(error))?.session_timeout())
    }

    /// Returns true if the client has logged in.
    pub(crate) fn have_a_user(&self) -> bool {
        self.target.login.is_some()
    }

    async fn session(&self, lasts: Duration) -> Result<Arc<Session>, BackendError> {
        let opening = self.opening(lasts);
        let session = opening.get_or_try_init(|| self.connect(lasts)).await?;
        *session.used.lock() = SystemClock.now();
        self.revive(lasts, session).await?;
        Ok(session.clone())
    }

    /// Gives the session another connection if it has none. The client library does so too, but waits longer
    /// after each try: it may be down for twice as long as the server was.
    async fn revive(&self, lasts: Duration, session: &Session) -> Result<(), BackendError> {
        let is_down = session.client().state() == SessionState::Disconnected;
        if !is_down || session.reviving.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let _reviving = Reviving(&session.reviving);
        let revived = self.connection(lasts, Some(session.client().session().clone())).await;
        match revived {
            Ok(client) => {
                *session.client.lock() = client;
                Ok(())
            }
            Err(Error::SessionExpired) => {
                session.is_over.store(true, Ordering::Release);
                Err(classify(Error::SessionExpired))
            }
            Err(error) => Err(self.unreachable(error)),
        }
    }

    /// Gives another connection to each session without one.
    pub(crate) async fn revive_all(&self) {
        let open: Vec<_> =
            self.open.lock().iter().map(|(lasts, open)| (*lasts, open.clone())).collect();
        let revived = open.iter().map(async |(lasts, open)| {
            if let Some(session) = open.get() {
                // The next look tries again.
                let _ = self.revive(*lasts, session).await;
            }
        });
        join_all(revived).await;
    }

    /// Returns the open session with this time-out, or starts to open one.
    fn opening(&self, lasts: Duration) -> Opening {
        let mut open = self.open.lock();
        let opening = open.entry(lasts).or_default();
        if opening.get().is_some_and(|session| session.is_over()) {
            *opening = Opening::default();
        }
        opening.clone()
    }

    async fn connect(&self, lasts: Duration) -> Result<Arc<Session>, BackendError> {
        let client = self.connection(lasts, None).await;
        let client = client.map_err(|error| self.unreachable(error))?;
        Ok(Arc::new(Session::new(client, self.target.hosts())))
    }

    /// Error of a connection that could not be made: nothing was sent. The client library gives no cause.
    fn unreachable(&self, error: Error) -> BackendError {
        if matches!(error, Error::AuthFailed | Error::BadArguments(_)) {
            return classify(error);
        }
        let context = match self.target.is_tls {
            true => {
                "no server can be reached by TLS: if it speaks none, say zookeeper, not zookeepers; else look at its \
                 certificate, and who signed it"
            }
            false => "no server can be reached: if it speaks TLS, say zookeepers, not zookeeper",
        };
        BackendError::transient(BACKEND, Outcome::NotApplied, context, error.to_string())
            .at(&self.target.hosts())
    }

    /// Opens a connection, for a new session or for this one.
    async fn connection(
        &self,
        lasts: Duration,
        session: Option<SessionInfo>,
    ) -> Result<Client, Error> {
        let connector = self.connector(lasts).with_detached();
        let connector = match session {
            Some(session) => connector.with_session(session),
            None => connector,
        };
        let connected = timeout(CONNECT_LIMIT, connector.connect(&self.target.servers)).await;
        connected.unwrap_or(Err(Error::Timeout))
    }

    fn connector(&self, lasts: Duration) -> Connector {
        let connector = self.target.connector.clone();
        connector.with_session_timeout(lasts).with_connection_timeout(SILENCE).with_fail_eagerly()
    }

    /// Ends the sessions that nobody has used for a while.
    pub(crate) async fn end_idle(&self) {
        let now = SystemClock.now();
        self.end(|lasts, session| lasts != COMMON && now.since(*session.used.lock()) >= IDLE_LIMIT)
            .await;
    }

    /// Ends the sessions without claims, and the common one if `all`.
    pub(crate) async fn end_unused(&self, all: bool) {
        self.end(|lasts, _| all || lasts != COMMON).await;
    }

    /// Ends sessions without claims: the session of a claim is in use by its [`Own`](crate::claims::Own).
    async fn end(&self, is_ended: impl Fn(Duration, &Session) -> bool) {
        let is_ended = |lasts: &Duration, opening: &mut Opening| {
            let unused = |session: &Arc<Session>| {
                Arc::strong_count(session) == 1 && is_ended(*lasts, session)
            };
            Arc::strong_count(opening) == 1 && opening.get().is_some_and(unused)
        };
        let ended: Vec<_> = self.open.lock().extract_if(is_ended).collect();
        for (lasts, opening) in ended {
            let Some(session) = opening.get().map(|session| session.client().session().clone())
            else {
                continue;
            };
            drop(opening);
            // A client that is not detached ends its session when it is dropped.
            let again = self.connector(lasts).with_session(session).connect(&self.target.servers);
            drop(timeout(CONNECT_LIMIT, again).await);
        }
    }

    /// Returns true if a session exists that may have to be ended later.
    pub(crate) fn has_idle(&self) -> bool {
        self.open.lock().keys().any(|lasts| *lasts != COMMON)
    }
}
