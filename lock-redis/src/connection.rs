//! One connection to the server, and when to give it up for another.
//!
//! The driver multiplexes all calls over one socket, and never replaces it. We do, in three cases:
//! the driver or the server says that it is of no use (closed, read-only, not authenticated); a call
//! was answered by silence; a call was given up by its caller after a long silence. The last two
//! matter because a firewall or a dead peer swallows requests without a word.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{AsyncConnectionConfig, Client, Cmd, IntoConnectionInfo, RedisError, Value};
use tokio::sync::OnceCell;

use crate::error::Failure;

/// How long to wait for a new connection.
pub(crate) const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// How long the driver waits for a reply before it takes the connection for dead.
const REPLY_LIMIT: Duration = Duration::from_secs(2);

/// A caller that leaves after this much silence leaves a suspect connection behind; one that
/// leaves earlier has changed its mind.
const SUSPECT_AFTER: Duration = Duration::from_millis(50);

/// How long the kernel lets sent bytes go unacknowledged.
const UNACKNOWLEDGED_LIMIT: Duration = Duration::from_secs(5);

/// The settings of every socket: no delay for small requests, and notice of a peer that is gone.
pub(crate) fn with_socket_settings(
    target: impl IntoConnectionInfo,
) -> Result<redis::ConnectionInfo, RedisError> {
    let keepalive =
        TcpKeepalive::new().with_time(UNACKNOWLEDGED_LIMIT).with_interval(Duration::from_secs(1));
    let settings = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive);
    #[cfg(target_os = "linux")]
    let settings = settings.set_user_timeout(UNACKNOWLEDGED_LIMIT);
    Ok(target.into_connection_info()?.set_tcp_settings(settings))
}

/// The connection that requests go over. Made when it is first needed.
pub(crate) struct Connection {
    client: Client,
    current: Mutex<Arc<Link>>,
}

/// One socket, or the attempt to open it, which callers share.
#[derive(Default)]
struct Link {
    driver: OnceCell<MultiplexedConnection>,
    replies: AtomicU64,
}

impl Connection {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, current: Mutex::default() }
    }

    /// Sends one command and waits for its reply.
    pub(crate) async fn send(&self, command: &Cmd) -> Result<Value, Failure> {
        let link = self.link();
        let driver = match link.driver.get_or_try_init(|| self.connect()).await {
            Ok(driver) => driver,
            Err(error) => return Err(Failure::Connecting(error)),
        };
        let call = Call::new(self, &link);
        let reply = driver.clone().send_packed_command(command).await;
        call.answered();
        let reply = reply.and_then(|value| value.extract_error());
        reply.map_err(|error| {
            if spoils_connection(&error) {
                self.retire(&link);
            }
            Failure::Asking(error)
        })
    }

    async fn connect(&self) -> Result<MultiplexedConnection, RedisError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_LIMIT))
            .set_response_timeout(Some(REPLY_LIMIT));
        self.client.get_multiplexed_async_connection_with_config(&config).await
    }

    fn link(&self) -> Arc<Link> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Lets the next call open a new connection, unless one has already.
    fn retire(&self, link: &Arc<Link>) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if Arc::ptr_eq(&current, link) {
            *current = Arc::default();
        }
    }
}

/// Whether later calls on the connection of this error would fail as well.
fn spoils_connection(error: &RedisError) -> bool {
    let demoted_or_locked_out = matches!(error.code(), Some("READONLY" | "NOAUTH" | "MASTERDOWN"));
    error.is_io_error() || error.is_unrecoverable_error() || demoted_or_locked_out
}

/// A call under way. Dropped without an answer after a long silence, it retires the connection.
struct Call<'a> {
    connection: &'a Connection,
    link: &'a Arc<Link>,
    sent: Instant,
    replies_before: u64,
    answered: bool,
}

impl<'a> Call<'a> {
    fn new(connection: &'a Connection, link: &'a Arc<Link>) -> Self {
        let replies_before = link.replies.load(Ordering::Relaxed);
        Self { connection, link, sent: Instant::now(), replies_before, answered: false }
    }

    fn answered(mut self) {
        self.link.replies.fetch_add(1, Ordering::Relaxed);
        self.answered = true;
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        let silent = self.link.replies.load(Ordering::Relaxed) == self.replies_before;
        if !self.answered && silent && self.sent.elapsed() >= SUSPECT_AFTER {
            self.connection.retire(self.link);
        }
    }
}
