//! Faults of a worker's network.

use std::time::Duration;

use super::fault::{Fault, Place};
use super::rng::Rng;
use crate::{Mode, Proxy};

pub(super) const FAULTS: [Fault; 8] = [
    Fault::new(Place::Network, "black-hole"),
    Fault::new(Place::Network, "replies-swallowed"),
    Fault::new(Place::Network, "requests-swallowed"),
    Fault::new(Place::Network, "reset"),
    Fault::new(Place::Network, "cut"),
    Fault::new(Place::Network, "half-open"),
    Fault::new(Place::Network, "cut-in-a-request"),
    Fault::new(Place::Network, "delay"),
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
