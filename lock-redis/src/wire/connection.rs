//! One connection to the server, and when to give it up for another.
//!
//! The driver multiplexes all calls over one socket, and never replaces it. We do, in three cases:
//!
//! - The driver or the server says that it is of no use: closed, read-only, not authenticated.
//! - A call had no reply in time.
//! - A caller left after a long silence.
//!
//! The last two matter because a firewall or a dead peer swallows requests without a word.
//!
//! ```text
//!            first call              given up
//!   no link ────────────▶ link 1 ──────────────▶ no link ──▶ link 2 ─▶ …
//! ```

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{Client, Cmd, ConnectionAddr, IntoConnectionInfo, RedisError, Value};
use tokio::sync::watch;

use crate::protocol::error::{RequestError, code_of};
use crate::protocol::message::Message;
use crate::wire::batch::Manner;
use crate::wire::link::{Link, Role};

/// A caller that leaves after so much silence leaves a suspect connection behind. A caller that leaves
/// earlier has changed its mind.
const SUSPECT_AFTER: Duration = Duration::from_millis(50);

/// The kernel lets sent bytes go unacknowledged for this long.
const UNACKNOWLEDGED_LIMIT: Duration = Duration::from_secs(5);

/// The settings of every connection: no delay for small requests, notice of a peer that is gone, and no request but
/// ours.
pub(crate) fn with_socket_settings(
    target: impl IntoConnectionInfo,
) -> Result<redis::ConnectionInfo, RedisError> {
    let keepalive =
        TcpKeepalive::new().with_time(UNACKNOWLEDGED_LIMIT).with_interval(Duration::from_secs(1));
    let settings = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive);
    #[cfg(target_os = "linux")]
    let settings = settings.set_user_timeout(UNACKNOWLEDGED_LIMIT);
    let info = target.into_connection_info()?.set_tcp_settings(settings);
    // Else the driver tells its name, which since Redis 7.2 is a right of its own: a server would log a refusal for
    // each connection of a user who has the rights of a client of locks.
    let quiet = info.redis_settings().clone().set_skip_set_lib_name();
    Ok(info.set_redis_settings(quiet))
}

/// The connection that requests go over. It is made when it is first needed.
pub(crate) struct Connection {
    client: Client,
    role: Role,
    state: Mutex<State>,
    /// Told each time that a link is open.
    opened: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    /// The link that requests go over, unless it was given up.
    current: Option<Arc<Link>>,
    /// Set once a link was given up.
    had_trouble: bool,
}

impl Connection {
    pub(crate) fn new(client: Client, role: Role) -> Self {
        Self { client, role, state: Mutex::default(), opened: watch::Sender::new(()) }
    }

    /// Returns the opener of connections to another server in the same way.
    pub(crate) fn client_at(&self, host: &str, port: u16) -> Result<Client, RedisError> {
        let (info, host) = (self.client.get_connection_info().clone(), host.to_owned());
        let address = match info.addr().clone() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
                ConnectionAddr::TcpTls { host, port, insecure, tls_params }
            }
            _ => ConnectionAddr::Tcp(host, port),
        };
        Client::open(info.set_addr(address))
    }

    /// Changes each time that a link is open, which may lead to another server than the one before.
    pub(crate) fn opened(&self) -> watch::Receiver<()> {
        self.opened.subscribe()
    }

    /// The link that requests go over now. It is opened if there is none.
    pub(crate) fn link(&self) -> Arc<Link> {
        let mut state = self.state();
        if let Some(current) = &state.current {
            return current.clone();
        }
        let link = Arc::new(Link::open(self.client.clone(), self.role, self.opened.clone()));
        state.current.insert(link).clone()
    }

    /// Returns true if the server may be gone: a link was given up, and none has been opened since.
    #[cfg_attr(
        not(any(feature = "cluster", feature = "sentinel")),
        allow(dead_code, reason = "one server is asked whatever happens")
    )]
    pub(crate) fn is_in_doubt(&self) -> bool {
        let state = self.state();
        state.had_trouble && !state.current.as_ref().is_some_and(|link| link.is_open())
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
        // C21: a caller that leaves after a long silence leaves no connection to others.
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

    /// Lets the next call open a new link, unless an earlier call has already.
    fn give_up(&self, link: &Arc<Link>) {
        let mut state = self.state();
        if state.current.as_ref().is_some_and(|current| Arc::ptr_eq(current, link)) {
            state.current = None;
            state.had_trouble = true;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns true if later calls on the connection of this error would fail as well.
fn spoils_connection(error: &RedisError) -> bool {
    let demoted_or_locked_out = matches!(&*code_of(error), "READONLY" | "NOAUTH" | "MASTERDOWN");
    error.is_io_error() || error.is_unrecoverable_error() || demoted_or_locked_out
}
