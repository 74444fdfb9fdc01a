//! Receives the grants that others make to waiters of this process.

use std::future::pending;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use lock_core::backend::NotificationTransport;
use lock_core::{BackendError, Outcome};
use uuid::Uuid;

use crate::blocking::blocking;
use crate::fault::BACKEND;
use crate::sockets::{HearingSocket, Sockets};

/// Listens on the socket of one backend (C26).
#[derive(Debug)]
pub(crate) struct Listener {
    sockets: Arc<Sockets>,
    /// True if the runtime was built without I/O. Then waiters poll.
    is_deaf: AtomicBool,
}

impl Listener {
    pub(crate) fn new(sockets: Arc<Sockets>) -> Self {
        Self { sockets, is_deaf: AtomicBool::new(false) }
    }
}

#[async_trait]
impl NotificationTransport for Listener {
    type Connection = HearingSocket;
    /// The name of the socket.
    type Address = Uuid;

    async fn connect(&self) -> Result<(HearingSocket, Uuid), BackendError> {
        if self.is_deaf.load(Ordering::Relaxed) {
            return pending().await;
        }
        let sockets = self.sockets.clone();
        let bound = blocking(move |_| sockets.bind().map_err(refused)).await?;
        let socket = bound.hear().inspect_err(|error| {
            self.is_deaf.store(error.kind() == ErrorKind::Unsupported, Ordering::Relaxed);
        });
        let socket = socket.map_err(refused)?;
        let name = socket.name();
        Ok((socket, name))
    }

    async fn recv(&self, socket: &mut HearingSocket) -> Option<String> {
        socket.recv().await.ok()
    }

    /// The kernel keeps the socket. But if its file was removed, nobody finds the socket.
    async fn ping(&self, socket: &mut HearingSocket) -> bool {
        socket.is_found()
    }
}

/// The waiter polls, and the next waiter tries to listen again.
pub(crate) fn refused(error: std::io::Error) -> BackendError {
    BackendError::transient(BACKEND, Outcome::NotApplied, "cannot hear of grants", error)
}
