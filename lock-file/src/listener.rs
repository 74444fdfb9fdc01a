//! Receives the grants that others make to waiters of this process.

use std::future::pending;
use std::io::ErrorKind;
use std::sync::Arc;

use async_trait::async_trait;
use lock_core::backend::NotificationTransport;
use lock_core::{BackendError, Outcome};
use parking_lot::Mutex;
use tokio::runtime::{Handle, Id};
use uuid::Uuid;

use crate::blocking::blocking;
use crate::fault::BACKEND;
use crate::sockets::{HearingSocket, Sockets};

/// Listens on the socket of one backend (C26).
#[derive(Debug)]
pub(crate) struct Listener {
    sockets: Arc<Sockets>,
    /// The last runtime that turned out to be built without I/O. Its waiters poll.
    deaf: Mutex<Option<Id>>,
}

impl Listener {
    pub(crate) fn new(sockets: Arc<Sockets>) -> Self {
        Self { sockets, deaf: Mutex::default() }
    }
}

#[async_trait]
impl NotificationTransport for Listener {
    type Connection = HearingSocket;
    /// The name of the socket.
    type Address = Uuid;

    async fn connect(&self) -> Result<(HearingSocket, Uuid), BackendError> {
        let here = Handle::current().id();
        if *self.deaf.lock() == Some(here) {
            return pending().await;
        }
        let sockets = self.sockets.clone();
        let bound = blocking(move |_| sockets.bind().map_err(refused)).await?;
        let socket = bound.hear().inspect_err(|error| {
            if error.kind() == ErrorKind::Unsupported {
                *self.deaf.lock() = Some(here);
            }
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::time::Duration;

    use tokio::runtime::Builder;
    use tokio::time::timeout;

    use super::*;

    #[test]
    fn c26_a_runtime_with_io_hears_after_one_without() {
        let home = tempfile::tempdir().expect("a directory");
        let listener = Listener::new(Arc::new(Sockets::of(home.path())));
        let deaf = Builder::new_current_thread().enable_time().build().expect("a runtime");
        deaf.block_on(listener.connect()).expect_err("no I/O");
        let hears = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let heard =
            hears.block_on(async { timeout(Duration::from_secs(30), listener.connect()).await });
        heard.expect("in time").expect("heard");
    }
}
