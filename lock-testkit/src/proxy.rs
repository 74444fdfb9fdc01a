//! A network between a client and a server that loses, delays and cuts.

mod lane;
mod mode;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::sleep;
use tokio::try_join;

pub use self::mode::Mode;
use crate::proxy::lane::{Direction, Lane};

/// A TCP proxy on its own port. A test changes its [`Mode`] at any time.
///
/// It runs on the test's runtime, so a test that blocks its only thread blocks the network too. Its
/// tasks and connections end when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    network: Arc<Network>,
    acceptor: AbortHandle,
}

impl Proxy {
    /// Starts a proxy before the server at `upstream`. It passes all bytes at first.
    ///
    /// # Panics
    /// If no port can be had.
    pub async fn start(upstream: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        Self::at(listener.expect("a port can be had"), upstream)
    }

    /// Starts a proxy at the port of the server at `upstream`, on another loopback address. It is for servers
    /// that report their port to clients, but not their address. Only Linux has enough loopback addresses.
    ///
    /// # Panics
    /// If no address can be had.
    pub async fn start_beside(upstream: SocketAddr) -> Self {
        // The first address is the server's.
        static TAKEN: AtomicU32 = AtomicU32::new(1);
        let number = TAKEN.fetch_add(1, Ordering::Relaxed);
        let address = Ipv4Addr::from_bits(Ipv4Addr::LOCALHOST.to_bits() + number);
        let listener = TcpListener::bind((address, upstream.port())).await;
        Self::at(listener.expect("an address can be had"), upstream)
    }

    fn at(listener: TcpListener, upstream: SocketAddr) -> Self {
        let address = listener.local_addr().expect("a bound port has an address");
        let network = Arc::new(Network::before(upstream));
        let acceptor = tokio::spawn(accept(listener, network.clone())).abort_handle();
        Self { address, network, acceptor }
    }

    /// Returns the address for clients.
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL for clients of Redis.
    pub fn url(&self) -> String {
        format!("redis://{}/", self.address)
    }

    /// Sets the mode of all connections, existing and new.
    pub fn set(&self, mode: Mode) {
        let mut links = self.network.links();
        links.mode_of_new = mode;
        links.set_existing(mode);
    }

    /// Sets the mode of the existing connections, and not of new ones: like a dead path while others work.
    pub fn set_existing(&self, mode: Mode) {
        self.network.links().set_existing(mode);
    }

    /// Leads new connections to the server at `upstream`, like a host name whose address changes. Existing ones stay.
    pub fn lead_to(&self, upstream: SocketAddr) {
        self.network.links().upstream = upstream;
    }

    /// Closes all existing connections. New ones follow the mode.
    pub fn cut(&self) {
        self.network.links().cut();
    }

    /// Returns the number of open connections.
    pub fn open_connections(&self) -> usize {
        self.network.links().open()
    }

    /// Returns the number of bytes of requests that were passed on so far.
    pub fn request_bytes(&self) -> u64 {
        self.network.request_bytes.load(Ordering::Acquire)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.acceptor.abort();
        self.cut();
    }
}

/// State shared by the acceptor, the connections and the test.
#[derive(Debug)]
struct Network {
    request_bytes: Arc<AtomicU64>,
    links: Mutex<Links>,
}

impl Network {
    fn before(upstream: SocketAddr) -> Self {
        Self {
            request_bytes: Arc::default(),
            links: Mutex::new(Links { upstream, mode_of_new: Mode::Pass, existing: Vec::new() }),
        }
    }

    fn links(&self) -> MutexGuard<'_, Links> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct Links {
    upstream: SocketAddr,
    mode_of_new: Mode,
    existing: Vec<Link>,
}

/// One connection through the proxy.
#[derive(Debug)]
struct Link {
    mode: watch::Sender<Mode>,
    task: AbortHandle,
}

impl Links {
    fn set_existing(&mut self, mode: Mode) {
        for link in &self.existing {
            link.mode.send_replace(mode);
        }
    }

    fn cut(&mut self) {
        for link in self.existing.drain(..) {
            link.task.abort();
        }
    }

    fn open(&mut self) -> usize {
        self.existing.retain(|link| !link.task.is_finished());
        self.existing.len()
    }
}

async fn accept(listener: TcpListener, network: Arc<Network>) {
    loop {
        match listener.accept().await {
            Ok((client, _)) => admit(client, &network),
            // Mostly no file descriptors are left: this passes when a connection ends.
            Err(_) => sleep(Duration::from_millis(10)).await,
        }
    }
}

fn admit(client: TcpStream, network: &Arc<Network>) {
    let mut links = network.links();
    if links.mode_of_new == Mode::Refuse {
        // Without lingering, a close is a reset.
        let _ = client.set_zero_linger();
        return;
    }
    let (mode, _) = watch::channel(links.mode_of_new);
    let connection = connect(client, links.upstream, network.clone(), mode.clone());
    let task = tokio::spawn(connection).abort_handle();
    links.open();
    links.existing.push(Link { mode, task });
}

/// Carries one connection until it ends. Dropping the halves closes it.
async fn connect(
    client: TcpStream,
    upstream: SocketAddr,
    network: Arc<Network>,
    mode: watch::Sender<Mode>,
) -> io::Result<()> {
    let opened = *mode.borrow();
    if let Mode::SlowToOpen(delay) = opened {
        sleep(delay).await;
    }
    let server = TcpStream::connect(upstream).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let requests = Lane::new(Direction::Requests, mode.clone(), network.request_bytes.clone());
    let replies = Lane::new(Direction::Replies, mode, network.request_bytes.clone());
    try_join!(requests.carry(from_client, to_server), replies.carry(from_server, to_client))?;
    Ok(())
}
