//! One connection to the server, and the reasons to replace it.
//!
//! The driver multiplexes all calls over one socket, and never replaces it. We do, in four cases:
//!
//! - The server has closed it while no call was in flight: then nothing of the next call was sent over it.
//! - The driver or the server reports that it is unusable: closed, read-only, not authenticated.
//! - A call had no reply in time.
//! - A caller left after a long silence.
//!
//! The last two cover a firewall or a dead peer that swallows requests.
//!
//! ```text
//!            first call              given up
//!   no link ────────────▶ link 1 ──────────────▶ no link ──▶ link 2 ─▶ …
//! ```

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{Cmd, IntoConnectionInfo, RedisError, Value};
use tokio::sync::watch;

use crate::protocol::error::{RequestError, code_of};
use crate::protocol::message::Message;
use crate::wire::batch::Manner;
use crate::wire::link::{Link, Role};
use crate::wire::opening::Opener;

/// If a caller leaves after this much silence, the connection is suspect. If it leaves earlier, it only changed its
/// mind.
const SUSPECT_AFTER: Duration = Duration::from_millis(50);

/// Longest time for which the kernel lets sent bytes stay unacknowledged.
const UNACKNOWLEDGED_LIMIT: Duration = Duration::from_secs(5);

/// Returns the settings of every connection: no delay for small requests, detection of a dead peer, and no requests
/// but ours.
pub(crate) fn with_socket_settings(
    target: impl IntoConnectionInfo,
) -> Result<redis::ConnectionInfo, RedisError> {
    let keepalive =
        TcpKeepalive::new().with_time(UNACKNOWLEDGED_LIMIT).with_interval(Duration::from_secs(1));
    let settings = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive);
    #[cfg(target_os = "linux")]
    let settings = settings.set_user_timeout(UNACKNOWLEDGED_LIMIT);
    let info = target.into_connection_info()?.set_tcp_settings(settings);
    // Without this setting the driver sends its name, which needs a separate right since Redis 7.2. The server
    // would then log a refusal for each connection of a user that has only the rights of a client of locks.
    let quiet = info.redis_settings().clone().set_skip_set_lib_name();
    Ok(info.set_redis_settings(quiet))
}

/// The connection for requests. It is opened when it is first needed.
pub(crate) struct Connection {
    opener: Opener,
    role: Role,
    state: Mutex<State>,
    /// The way of the last link, signalled each time that a link is open.
    opened: watch::Sender<Option<Opener>>,
}

#[derive(Default)]
struct State {
    /// The link for requests, unless it was given up.
    current: Option<Arc<Link>>,
    /// True once a link was given up.
    had_trouble: bool,
}

impl State {
    /// Returns the link for requests, unless it was given up, or the server has closed it.
    fn present(&mut self) -> Option<&Arc<Link>> {
        if self.current.as_ref().is_some_and(|link| link.has_ended()) {
            self.give_up();
        }
        self.current.as_ref()
    }

    fn give_up(&mut self) {
        self.current = None;
        self.had_trouble = true;
    }
}

impl Connection {
    pub(crate) fn new(opener: Opener, role: Role) -> Self {
        Self { opener, role, state: Mutex::default(), opened: watch::Sender::new(None) }
    }

    /// Returns true if the server is one of a quorum.
    pub(crate) fn is_of_quorum(&self) -> bool {
        matches!(self.role, Role::Voter(_))
    }

    /// Returns host and port of the server, or the path of its socket.
    pub(crate) fn address(&self) -> String {
        self.opener.info().addr().to_string()
    }

    /// Returns the opener of connections to another server in the same way.
    pub(crate) fn opener_at(&self, host: &str, port: u16) -> Result<Opener, RedisError> {
        self.opener.at(host, port)
    }

    /// Changes each time that a link is open, to its way. The link may lead to another server than the one before.
    pub(crate) fn opened(&self) -> watch::Receiver<Option<Opener>> {
        self.opened.subscribe()
    }

    /// Returns the present link for requests; opens one if there is none.
    pub(crate) fn link(&self) -> Arc<Link> {
        let mut state = self.state.lock();
        if let Some(current) = state.present() {
            return current.clone();
        }
        let link = Arc::new(Link::open(self.opener.clone(), self.role, self.opened.clone()));
        state.current.insert(link).clone()
    }

    /// Returns true if the server may be gone: a link was given up, and none has been opened since.
    #[cfg_attr(
        not(any(feature = "cluster", feature = "sentinel")),
        allow(dead_code, reason = "there is only one server")
    )]
    pub(crate) fn is_in_doubt(&self) -> bool {
        let mut state = self.state.lock();
        let is_open = state.present().is_some_and(|link| link.is_open());
        state.had_trouble && !is_open
    }

    /// Sends one command, and waits for its reply.
    pub(crate) async fn send(&self, command: Cmd) -> Result<Value, RequestError> {
        self.send_over(&self.link(), command.into(), Manner::Plain).await
    }

    /// Asks over `link`, and waits for the reply.
    pub(crate) async fn send_over(
        &self,
        link: &Arc<Link>,
        message: Message,
        manner: Manner,
    ) -> Result<Value, RequestError> {
        self.open(link).await?;
        // C21: a caller that leaves after a long silence removes the connection for the others.
        let reply = link.replies.request_sent(SUSPECT_AFTER, || self.give_up(link));
        let answer = link.ask(message, manner).await;
        reply.received();
        answer.map_err(|error| {
            if spoils_connection(&error) {
                self.give_up(link);
            }
            RequestError::Execute(error)
        })
    }

    /// Waits until `link` is open.
    pub(crate) async fn open(&self, link: &Arc<Link>) -> Result<(), RequestError> {
        link.opened().await.map_err(|error| {
            self.give_up(link);
            RequestError::Connect(error)
        })
    }

    /// Lets the next call open a new link, unless an earlier call already has one.
    fn give_up(&self, link: &Arc<Link>) {
        let mut state = self.state.lock();
        if state.current.as_ref().is_some_and(|current| Arc::ptr_eq(current, link)) {
            state.give_up();
        }
    }
}

/// Returns true if later calls on the connection of this error would fail too.
fn spoils_connection(error: &RedisError) -> bool {
    let demoted_or_locked_out = matches!(&*code_of(error), "READONLY" | "NOAUTH" | "MASTERDOWN");
    error.is_io_error() || error.is_unrecoverable_error() || demoted_or_locked_out
}
