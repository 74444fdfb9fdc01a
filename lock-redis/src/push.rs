//! The connection on which the server tells this client of its grants: a channel of its own.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt;
use lock_core::{BackendError, PushServer};
use redis::Client;
use redis::aio::{PubSubSink, PubSubStream};

use crate::error::Failure;

/// Where one client subscribes.
pub(crate) struct Subscriber {
    client: Client,
    channel: Arc<str>,
}

impl Subscriber {
    pub(crate) fn new(client: Client) -> Self {
        let channel = format!("leasehold-{}", uuid::Uuid::new_v4().as_simple());
        Self { client, channel: channel.into() }
    }

    /// The channel on which the server tells this client of its grants.
    pub(crate) fn channel(&self) -> Arc<str> {
        self.channel.clone()
    }
}

#[async_trait]
impl PushServer for Subscriber {
    type Session = (PubSubSink, PubSubStream);
    type Address = Arc<str>;

    async fn open(&self) -> Result<(Self::Session, Self::Address), BackendError> {
        let connection = self.client.get_async_pubsub().await;
        let mut connection = connection.map_err(Failure::Connecting)?;
        connection.subscribe(&*self.channel).await.map_err(Failure::Asking)?;
        Ok((connection.split(), self.channel()))
    }

    async fn hear(&self, (_, messages): &mut Self::Session) -> Option<String> {
        let message = messages.next().await?;
        Some(String::from_utf8_lossy(message.get_payload_bytes()).into_owned())
    }

    async fn is_alive(&self, (sink, _): &mut Self::Session) -> bool {
        sink.ping::<redis::Value>().await.is_ok()
    }
}
