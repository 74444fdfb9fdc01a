//! One session, and its connection.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lock_core::{BackendError, Clock, Moment, SystemClock};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use zookeeper_client::{Client, Error, Stat};

use crate::error::{classify, ends_session};

/// A session, with its connection. It counts as over once a request fails for that reason.
pub(crate) struct Session {
    pub(crate) client: Mutex<Client>,
    /// Hosts and ports of the ensemble, for errors.
    servers: String,
    lasts: Duration,
    pub(crate) is_over: AtomicBool,
    pub(crate) used: Mutex<Moment>,
    /// For the one task that gives it another connection.
    pub(crate) reviving: Semaphore,
}

impl Session {
    pub(crate) fn new(client: Client, servers: String) -> Self {
        let (lasts, used) = (client.session_timeout(), Mutex::new(SystemClock.now()));
        let (is_over, reviving) = (AtomicBool::new(false), Semaphore::new(1));
        Self { client: Mutex::new(client), servers, lasts, is_over, used, reviving }
    }

    /// Returns its present connection.
    pub(crate) fn client(&self) -> Client {
        self.client.lock().clone()
    }

    /// Returns the longest TTL of a hold on this session.
    pub(crate) fn longest_ttl(&self) -> Duration {
        self.lasts * 3 / 4
    }

    /// Returns true if the node ends with this session.
    pub(crate) fn has(&self, node: &Stat) -> bool {
        node.ephemeral_owner == self.client().session_id().0
    }

    /// Classifies the error of a request on this session.
    pub(crate) fn failed(&self, error: impl Into<Error>) -> BackendError {
        let error = error.into();
        if ends_session(&error) {
            self.is_over.store(true, Ordering::Release);
        }
        let error = classify(error);
        if error.is_transient() { error.at(&self.servers) } else { error }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire) || self.client().state().is_terminated()
    }
}
