//! Parts of a client that its holds share.

use std::sync::Arc;

use super::options::ClientOptions;
use super::process::Process;
use super::telemetry::Telemetry;
use crate::model::{Lease, Moment};

/// The parts of a client without its backend. A hold, which a [`LostSignal`](crate::LostSignal) may keep for long, has
/// them, and keeps no connection open.
#[derive(Debug)]
pub(crate) struct ClientParts {
    pub(crate) options: ClientOptions,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) process: Process,
}

impl ClientParts {
    pub(crate) fn new(backend: &'static str, options: ClientOptions) -> Self {
        let telemetry = Arc::new(Telemetry::new(backend, &options));
        Self { options, telemetry, process: Process::current() }
    }

    /// Returns the time by the client's clock.
    pub(crate) fn now(&self) -> Moment {
        self.options.clock.now()
    }

    pub(crate) fn has_expired(&self, lease: &Lease) -> bool {
        self.now().has_reached(lease.deadline)
    }
}
