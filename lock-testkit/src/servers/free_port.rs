//! A port that nobody listens on.

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};

/// Below the range from which systems take ports for outgoing connections: a client that keeps
/// dialling a killed server could otherwise be given that very port, and connect to itself.
const PORTS: std::ops::Range<u16> = 10_000..32_000;

/// A loopback port that was free a moment ago.
///
/// Another process may take it before it is used. Then the caller tries again with another port.
pub fn free_port() -> u16 {
    std::iter::repeat_with(any_port)
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .expect("the search ends only with a port")
}

/// Random, so that test processes side by side seldom try the same.
fn any_port() -> u16 {
    let random = RandomState::new().hash_one(0);
    PORTS.start + (random % PORTS.len() as u64) as u16
}
