//! How the server tells this client of its grants: by a channel of the client's own.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt;
use lock_core::BackendError;
use lock_core::backend::NotificationTransport;
use redis::Client;
use redis::aio::{PubSubSink, PubSubStream};

use crate::error::{RequestError, classify};

/// Subscribes one client to its channel, at one server.
pub(crate) struct Subscriber {
    client: Client,
    channel: Arc<str>,
}

/// A channel for one client, on which all servers tell it of their grants.
pub(crate) fn new_channel() -> Arc<str> {
    format!("leasehold-{}", uuid::Uuid::new_v4().as_simple()).into()
}

impl Subscriber {
    pub(crate) fn new(client: Client, channel: Arc<str>) -> Self {
        Self { client, channel }
    }
}

#[async_trait]
impl NotificationTransport for Subscriber {
    type Connection = (PubSubSink, PubSubStream);
    type Address = Arc<str>;

    async fn connect(&self) -> Result<(Self::Connection, Self::Address), BackendError> {
        let connection = self.client.get_async_pubsub().await;
        let mut connection = connection.map_err(|error| classify(RequestError::Connect(error)))?;
        let subscribed = connection.subscribe(&*self.channel).await;
        subscribed.map_err(|error| classify(RequestError::Execute(error)))?;
        Ok((connection.split(), self.channel.clone()))
    }

    async fn recv(&self, (_, messages): &mut Self::Connection) -> Option<String> {
        let message = messages.next().await?;
        Some(String::from_utf8_lossy(message.get_payload_bytes()).into_owned())
    }

    async fn ping(&self, (sink, _): &mut Self::Connection) -> bool {
        sink.ping::<redis::Value>().await.is_ok()
    }
}
