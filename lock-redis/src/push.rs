//! How the server tells this client of its grants: by a channel of the client's own.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt;
use lock_core::BackendError;
use lock_core::backend::NotificationTransport;
use redis::Client;
use redis::aio::{PubSubSink, PubSubStream};

use crate::error::{RequestError, classify};
use crate::key_events::KeyEvents;

/// Subscribes one client to its channel.
pub(crate) struct Subscriber {
    client: Client,
    channel: Arc<str>,
    key_events: Arc<KeyEvents>,
}

/// A connection on which this client hears, of grants and of keys.
pub(crate) struct Subscription {
    sink: PubSubSink,
    messages: PubSubStream,
    key_events: Arc<KeyEvents>,
}

impl Subscriber {
    pub(crate) fn new(client: Client, key_events: Arc<KeyEvents>) -> Self {
        let channel = format!("leasehold-{}", uuid::Uuid::new_v4().as_simple());
        Self { client, channel: channel.into(), key_events }
    }

    /// The channel on which the server tells this client of its grants.
    pub(crate) fn channel(&self) -> Arc<str> {
        self.channel.clone()
    }
}

#[async_trait]
impl NotificationTransport for Subscriber {
    type Connection = Subscription;
    type Address = Arc<str>;

    async fn connect(&self) -> Result<(Subscription, Arc<str>), BackendError> {
        let connection = self.client.get_async_pubsub().await;
        let mut connection = connection.map_err(|error| classify(RequestError::Connect(error)))?;
        let subscribed = connection.subscribe(&*self.channel).await;
        subscribed.map_err(|error| classify(RequestError::Execute(error)))?;
        let (sink, messages) = connection.split();
        let key_events = self.key_events.clone();
        key_events.heard_on(Some(sink.clone()));
        Ok((Subscription { sink, messages, key_events }, self.channel()))
    }

    async fn recv(&self, connection: &mut Subscription) -> Option<String> {
        loop {
            let message = connection.messages.next().await?;
            let (channel, payload) = (message.get_channel_name(), message.get_payload_bytes());
            if channel == &*self.channel {
                return Some(String::from_utf8_lossy(payload).into_owned());
            }
            self.key_events.tell(channel, payload);
        }
    }

    async fn ping(&self, connection: &mut Subscription) -> bool {
        connection.sink.ping::<redis::Value>().await.is_ok()
    }

    fn is_in_use(&self) -> bool {
        self.key_events.is_in_use()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.key_events.heard_on(None);
    }
}
