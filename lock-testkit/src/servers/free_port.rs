//! A free port.

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};

/// Below the range of ports for outgoing connections: otherwise a client that keeps dialling a killed server
/// could be given that very port, and connect to itself.
const PORTS: std::ops::Range<u16> = 10_000..32_000;

/// Returns a loopback port that was just free.
///
/// Another process may take it before its use. The caller then tries again with another port.
pub fn free_port() -> u16 {
    std::iter::repeat_with(any_port)
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .expect("the search ends only with a port")
}

/// Returns a random port, so that test processes seldom try the same.
fn any_port() -> u16 {
    let random = RandomState::new().hash_one(0);
    PORTS.start + (random % PORTS.len() as u64) as u16
}
