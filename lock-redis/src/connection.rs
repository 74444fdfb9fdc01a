//! One connection to the server, and when to give it up for another.
//!
//! The driver multiplexes all calls over one socket, and never replaces it. We do, in three cases:
//! the driver or the server says that it is of no use (closed, read-only, not authenticated); a call
//! was answered by silence; a call was given up by its caller after a long silence. The last two
//! matter because a firewall or a dead peer swallows requests without a word.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lock_core::backend::ReplyMonitor;
use redis::aio::MultiplexedConnection;
use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{AsyncConnectionConfig, Client, Cmd, IntoConnectionInfo, RedisError, Value};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::error::RequestError;

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
    current: Mutex<Option<Arc<Link>>>,
}

/// One socket, or the attempt to open it. Callers share the attempt, and it goes on when they leave:
/// else a connection that takes longer than a caller stays would never be made.
struct Link {
    opened: watch::Receiver<Option<Result<MultiplexedConnection, RedisError>>>,
    opening: AbortHandle,
    replies: ReplyMonitor,
}

impl Link {
    fn open(client: Client) -> Self {
        let (tell, opened) = watch::channel(None);
        let opening = tokio::spawn(async move {
            let config = AsyncConnectionConfig::new()
                .set_connection_timeout(Some(CONNECT_LIMIT))
                .set_response_timeout(Some(REPLY_LIMIT));
            let connected = client.get_multiplexed_async_connection_with_config(&config).await;
            tell.send_replace(Some(connected));
        });
        Self { opened, opening: opening.abort_handle(), replies: ReplyMonitor::default() }
    }

    async fn driver(&self) -> Result<MultiplexedConnection, RedisError> {
        let mut opened = self.opened.clone();
        match opened.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(connected)) => connected.clone(),
            // The runtime that opened it has ended.
            Ok(None) | Err(_) => Err(io::Error::from(io::ErrorKind::NotConnected).into()),
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.opening.abort();
    }
}

impl Connection {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, current: Mutex::default() }
    }

    /// Sends one command and waits for its reply.
    pub(crate) async fn send(&self, command: &Cmd) -> Result<Value, RequestError> {
        let link = self.link();
        let mut driver = match link.driver().await {
            Ok(driver) => driver,
            Err(error) => {
                self.retire(&link);
                return Err(RequestError::Connect(error));
            }
        };
        // C21: a caller that leaves after a long silence leaves no connection to others.
        let reply = link.replies.request_sent(SUSPECT_AFTER, || self.retire(&link));
        let answer = driver.send_packed_command(command).await;
        reply.received();
        let answer = answer.and_then(|value| value.extract_error());
        answer.map_err(|error| {
            if spoils_connection(&error) {
                self.retire(&link);
            }
            RequestError::Execute(error)
        })
    }

    fn link(&self) -> Arc<Link> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.get_or_insert_with(|| Arc::new(Link::open(self.client.clone()))).clone()
    }

    /// Lets the next call open a new connection, unless one has already.
    fn retire(&self, link: &Arc<Link>) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, link)) {
            *current = None;
        }
    }
}

/// Whether later calls on the connection of this error would fail as well.
fn spoils_connection(error: &RedisError) -> bool {
    let demoted_or_locked_out = matches!(error.code(), Some("READONLY" | "NOAUTH" | "MASTERDOWN"));
    error.is_io_error() || error.is_unrecoverable_error() || demoted_or_locked_out
}
