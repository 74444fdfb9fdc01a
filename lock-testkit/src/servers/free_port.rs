//! Free ports, each of which is returned once, and servers on them.

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Below the range of ports for outgoing connections: otherwise a client that keeps dialling a killed server
/// could be given that very port, and connect to itself.
const PORTS: Range<u16> = 10_000..32_000;

/// Number of ports that a process reserves at a time.
const BLOCK: u16 = 100;

/// Number of tries with new ports. Another process seldom takes a port between the choice and the start.
const TRIES: usize = 5;

/// Reserved ports that were not returned yet.
struct Block {
    ports: Range<u16>,
    /// Bound to the number of the first port. Servers use TCP, so only a process that reserves the same block binds
    /// it. The system closes it when this process ends.
    _reservation: UdpSocket,
}

/// Returns a loopback port that was just free. No later call returns the same port: in this process, or in another
/// while this process lives. So nobody else answers at the address of a killed server.
///
/// A program that does not call this function may take the port before its use. The caller then tries again with
/// another port.
///
/// # Panics
/// If all ports are reserved.
pub fn free_port() -> u16 {
    static BLOCKS: Mutex<Vec<Block>> = Mutex::new(Vec::new());
    let mut blocks = BLOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let left = blocks.last_mut().map(|block| &mut block.ports);
        let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
        match left.and_then(|ports| ports.find(is_free)) {
            Some(port) => return port,
            None => blocks.push(reserve()),
        }
    }
}

/// Starts a server on ports from [`free_port`]; tries again with others if another process took one. The error of
/// `start` is the server's log.
pub(crate) async fn on_free_ports<S, F>(start: impl Fn() -> F) -> S
where
    F: Future<Output = Result<S, String>>,
{
    for _ in 0..TRIES {
        match start().await {
            Ok(server) => return server,
            Err(log) if is_port_taken(&log) => {}
            Err(log) => panic!("{log}"),
        }
    }
    panic!("no free ports in {TRIES} tries");
}

/// Returns true if a server's log says that another process has its port.
pub(crate) fn is_port_taken(log: &str) -> bool {
    log.to_lowercase().contains("address already in use")
}

/// Reserves a block. Begins at a random one, so that processes seldom try the same.
fn reserve() -> Block {
    let random = RandomState::new().hash_one(0) as u16;
    let reserve = |number: u16| {
        let first = PORTS.start + number * BLOCK;
        let _reservation = UdpSocket::bind((Ipv4Addr::LOCALHOST, first)).ok()?;
        Some(Block { ports: first..first + BLOCK, _reservation })
    };
    let count = PORTS.len() as u16 / BLOCK;
    let mut numbers = (0..count).map(|number| (random % count + number) % count);
    numbers.find_map(reserve).expect("not all ports are reserved")
}
