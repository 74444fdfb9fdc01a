//! Gives the behaviours a server and its backend.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use lock_core::DistributedLock;

use super::server::Server;
use crate::Proxy;

/// Gives the behaviours under faults a server and its backend.
#[allow(async_fn_in_trait, reason = "a test awaits it in place, and needs no `Send`")]
pub trait Harness: 'static {
    /// The server that is disturbed. Its locks outlive its process.
    type Server: Server;

    /// The most connections that one client opens, whatever it does.
    const CONNECTIONS: usize;

    /// Number of locks that one client may ask for at once, each of which it then gets in good time.
    const AT_ONCE: usize = 1200;

    /// The request time-out of the clients under test.
    const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

    /// Time that a loaded machine may add to a bound of the contract.
    const SLACK: Duration = Duration::from_secs(2);

    /// A server of one's own.
    async fn start() -> Self::Server;

    /// The server that all tests use which leave it as they found it.
    async fn shared() -> &'static Self::Server;

    /// Connects a backend to a server, or to a [`Proxy`] before one, at `address`.
    async fn connect_at(address: SocketAddr) -> Arc<dyn DistributedLock>;

    /// A network before a server. A server that tells its clients its own port is behind
    /// [`Proxy::start_beside`].
    async fn proxy(server: &Self::Server) -> Proxy {
        Proxy::start(server.addr()).await
    }

    /// Returns the number of connections or streams by which the server tells waiters of their turn. Never called where
    /// waiters poll.
    async fn pushes(server: &Self::Server) -> usize;

    /// Returns once no client has left anything that stays, now that all of them are gone.
    async fn until_nothing_is_left(server: &Self::Server);
}
