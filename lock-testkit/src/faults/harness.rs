//! Gives the fault tests a server and its backend.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use lock_core::DistributedLock;

use super::server::Server;
use crate::Proxy;

/// Gives the fault tests a server and its backend.
#[allow(async_fn_in_trait, reason = "a test awaits it in place, and needs no `Send`")]
pub trait Harness: 'static {
    /// The server that is disturbed. Its locks outlive its process.
    type Server: Server;

    /// Most connections that one client ever opens.
    const CONNECTIONS: usize;

    /// Number of locks that one client may ask for at once and still get in good time.
    const AT_ONCE: usize = 1200;

    /// Number of holds that one client can renew on a busy machine.
    const HOLDS: usize = 1000;

    /// The request time-out of the clients under test.
    const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

    /// Time that a loaded machine may add to a bound of the contract.
    const SLACK: Duration = Duration::from_secs(2);

    /// Starts a new server.
    async fn start() -> Self::Server;

    /// Returns the server that is shared by all tests that do not disturb it.
    async fn shared() -> &'static Self::Server;

    /// Connects a backend to a server, or to a [`Proxy`] before one, at `address`.
    async fn connect_at(address: SocketAddr) -> Arc<dyn DistributedLock>;

    /// Starts a network before a server. A server that reports its own port to clients needs [`Proxy::start_beside`].
    async fn proxy(server: &Self::Server) -> Proxy {
        Proxy::start(server.addr()).await
    }

    /// Returns the number of connections or streams by which the server notifies waiters. Never called if waiters
    /// poll.
    async fn pushes(server: &Self::Server) -> usize;

    /// Returns once nothing of the clients is left on the server. All clients are gone by then.
    async fn until_nothing_is_left(server: &Self::Server);
}
