//! Faults of a worker's network.

use std::time::Duration;

use super::fault::{Fault, Victim};
use super::rng::Rng;
use crate::{Mode, Proxy};

pub(super) const FAULTS: [Fault; 8] = [
    Fault::new(Victim::Network, "black-hole"),
    Fault::new(Victim::Network, "replies-swallowed"),
    Fault::new(Victim::Network, "requests-swallowed"),
    Fault::new(Victim::Network, "reset"),
    Fault::new(Victim::Network, "cut"),
    Fault::new(Victim::Network, "half-open"),
    Fault::new(Victim::Network, "cut-in-a-request"),
    Fault::new(Victim::Network, "delay"),
];

/// Begins a fault. It ends when the proxy passes bytes again.
pub(super) fn strike(proxy: &Proxy, fault: &str, rng: &mut Rng) {
    match fault {
        "black-hole" => proxy.set(Mode::BlackHole),
        "replies-swallowed" => proxy.set(Mode::SwallowReplies),
        "requests-swallowed" => proxy.set(Mode::SwallowRequests),
        "reset" => {
            proxy.set(Mode::Refuse);
            proxy.cut();
        }
        "cut" => proxy.cut(),
        // New connections still work.
        "half-open" => proxy.set_existing(Mode::BlackHole),
        "cut-in-a-request" => proxy.set_existing(Mode::CutAfter(rng.below(300))),
        "delay" => proxy.set(Mode::Delay(Duration::from_millis(1 + rng.below(150)))),
        other => panic!("no such fault of a network: {other}"),
    }
}
