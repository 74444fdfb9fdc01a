//! Hears of this client's grants over a session of its own, which a task looks after.

use async_trait::async_trait;
use lock_core::BackendError;
use lock_core::backend::NotificationTransport;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::hearing::Hearing;
use super::waits::Waits;
use crate::error::{RequestError, classify};
use crate::server::Server;

/// Where one client listens.
pub(crate) struct Listener {
    server: Server,
    waits: Waits,
}

impl Listener {
    pub(super) fn new(server: Server, waits: Waits) -> Self {
        Self { server, waits }
    }
}

/// A session, as its client knows it. It ends when this is dropped.
pub(crate) struct Session {
    messages: mpsc::UnboundedReceiver<String>,
    pings: mpsc::Sender<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[async_trait]
impl NotificationTransport for Listener {
    type Connection = Session;
    /// The number of the channel.
    type Address = i64;

    async fn connect(&self) -> Result<(Session, i64), BackendError> {
        let (told, messages) = mpsc::unbounded_channel();
        let (pings, asked) = mpsc::channel(1);
        let hearing = Hearing::open(self.server.clone(), self.waits.clone(), told).await;
        let hearing = hearing.map_err(|error| classify(RequestError::Connect(error)))?;
        let number = hearing.number;
        // An end, by whatever error, ends the messages.
        let task = tokio::spawn(async move { _ = hearing.run(asked).await });
        Ok((Session { messages, pings, task }, number))
    }

    async fn recv(&self, session: &mut Session) -> Option<String> {
        session.messages.recv().await
    }

    async fn ping(&self, session: &mut Session) -> bool {
        let (reply, answer) = oneshot::channel();
        session.pings.send(reply).await.is_ok() && answer.await.is_ok()
    }
}
