//! One server: its connections for requests and for grants.

use std::sync::Arc;
use std::time::Duration;

use lock_core::BackendError;
use lock_core::backend::Notifications;
use redis::{Cmd, RedisError, Value};
use tokio::time::timeout;

use crate::protocol::error::{BACKEND, RequestError, classify};
use crate::wire::connection::Connection;
use crate::wire::key_events::KeyEvents;
use crate::wire::link::Role;
use crate::wire::opening::Opener;
use crate::wire::push::Subscriber;

/// Longest wait for one of several servers.
const PATIENCE: Duration = Duration::from_millis(500);

/// One server that keeps locks.
pub(crate) struct Node {
    /// Its address, by which the others of its cluster name it; empty for a single server.
    pub(crate) address: String,
    pub(crate) connection: Connection,
    /// Its pushes. A server counts only clients that are connected to itself as listeners, so a client listens at
    /// each server with a lock for which it waits.
    pub(crate) push: Arc<Notifications<Subscriber>>,
    /// Events of keys, over the same connection.
    pub(crate) key_events: Arc<KeyEvents>,
    /// The channel of its messages about grants.
    pub(crate) channel: Arc<str>,
}

impl Node {
    pub(crate) fn new(address: String, opener: Opener, role: Role, channel: Arc<str>) -> Self {
        let database = opener.info().redis_settings().db();
        let key_events = Arc::new(KeyEvents::new(database));
        let connection = Connection::new(opener.clone(), role);
        let subscriber =
            Subscriber::new(opener, channel.clone(), key_events.clone(), connection.opened());
        let push = Arc::new(Notifications::new(subscriber));
        Self { address, connection, push, key_events, channel }
    }

    /// Returns a replica of it, which is reached in the same way and by the same user.
    pub(crate) fn replica(&self, host: &str, port: u16) -> Result<Self, RedisError> {
        let opener = self.connection.opener_at(host, port)?;
        let address = format!("replica {host}:{port}");
        Ok(Self::new(address, opener, Role::Any, self.channel.clone()))
    }

    /// Waits for the server's answer. If the server is one of several, the wait is short, so that its silence
    /// does not hide the answers of the others.
    pub(crate) async fn in_time<T>(
        &self,
        answer: impl Future<Output = Result<T, BackendError>>,
    ) -> Result<T, BackendError> {
        match &*self.address {
            "" => answer.await,
            address => {
                let silent = |_| Err(BackendError::no_answer(BACKEND, PATIENCE).at(address));
                timeout(PATIENCE, answer).await.unwrap_or_else(silent)
            }
        }
    }

    /// Waits until its connection is open, which the server has answered then.
    pub(crate) async fn reach(&self) -> Result<(), BackendError> {
        let opened = self.connection.open(&self.connection.link()).await;
        opened.map_err(|error| self.failed(error))
    }

    /// Sends the server one command, and waits for its reply.
    pub(crate) async fn send(&self, command: Cmd) -> Result<Value, BackendError> {
        let answer = self.connection.send(command).await;
        answer.map_err(|error| self.failed(error))
    }

    /// Classifies the error of a request to this server. A failure that may pass, or of one server of several, names
    /// the server.
    pub(crate) fn failed(&self, error: RequestError) -> BackendError {
        let error = classify(error);
        match &*self.address {
            // The quorum names its servers itself.
            "" if self.connection.is_of_quorum() || !error.is_transient() => error,
            "" => error.at(&self.connection.address()),
            address => error.at(address),
        }
    }
}
