//! Receives this client's grants on a channel for this client alone.
//!
//! A server skips a waiter whose client listens elsewhere. So the client listens where it sends requests: when
//! another link is opened, as after a failover behind a host name, the subscription is made again.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt;
use lock_core::backend::NotificationTransport;
use lock_core::{BackendError, Outcome};
use redis::aio::{PubSubSink, PubSubStream};
use tokio::sync::watch;

use crate::protocol::error::{BACKEND, RequestError, classify};
use crate::wire::key_events::KeyEvents;
use crate::wire::opening::Opener;

/// Subscribes one client to its channel, at one server.
pub(crate) struct Subscriber {
    opener: Opener,
    channel: Arc<str>,
    key_events: Arc<KeyEvents>,
    /// Changes each time that a link for requests is opened, to its way.
    links: watch::Receiver<Option<Opener>>,
}

/// A connection on which this client receives grants and events of keys.
pub(crate) struct Subscription {
    sink: PubSubSink,
    messages: PubSubStream,
    key_events: Arc<KeyEvents>,
    links: watch::Receiver<Option<Opener>>,
}

/// Returns a channel for one client, on which all servers send it their grants.
pub(crate) fn new_channel() -> Arc<str> {
    format!("leasehold-{}", uuid::Uuid::new_v4().as_simple()).into()
}

impl Subscriber {
    pub(crate) fn new(
        opener: Opener,
        channel: Arc<str>,
        key_events: Arc<KeyEvents>,
        links: watch::Receiver<Option<Opener>>,
    ) -> Self {
        Self { opener, channel, key_events, links }
    }
}

#[async_trait]
impl NotificationTransport for Subscriber {
    type Connection = Subscription;
    type Address = Arc<str>;

    async fn connect(&self) -> Result<(Subscription, Arc<str>), BackendError> {
        // A link that is opened later may lead elsewhere.
        let mut links = self.links.clone();
        let way = links.borrow_and_update().clone();
        links.has_changed().map_err(|_| no_more_asked())?;
        let way = way.as_ref().unwrap_or(&self.opener);
        let open = |way: Opener| async move { way.client().await?.get_async_pubsub().await };
        let mut connection = match way.log_in(open).await {
            Err(error) if way.is_by_tls() => Err(way.explained(error).await),
            opened => opened,
        }
        .map_err(|error| classify(RequestError::Connect(error)))?;
        let subscribed = connection.subscribe(&*self.channel).await;
        subscribed.map_err(|error| classify(RequestError::Execute(error)))?;
        let (sink, messages) = connection.split();
        let key_events = self.key_events.clone();
        key_events.heard_on(Some(sink.clone()));
        Ok((Subscription { sink, messages, key_events, links }, self.channel.clone()))
    }

    async fn recv(&self, connection: &mut Subscription) -> Option<String> {
        loop {
            let message = tokio::select! {
                biased;
                _ = connection.links.changed() => return None,
                message = connection.messages.next() => message?,
            };
            let (channel, payload) = (message.get_channel_name(), message.get_payload_bytes());
            if channel == &*self.channel {
                return Some(String::from_utf8_lossy(payload).into_owned());
            }
            self.key_events.tell(channel, payload);
        }
    }

    async fn ping(&self, connection: &mut Subscription) -> bool {
        // A server that cannot write to its disk answers by an error.
        let answer = connection.sink.ping::<redis::Value>().await;
        answer.map_or_else(|refused| refused.code().is_some(), |_| true)
    }

    fn is_in_use(&self) -> bool {
        self.key_events.is_in_use()
    }
}

/// The error after the server was replaced by another: its messages are not awaited any more.
fn no_more_asked() -> BackendError {
    let context = "another server has replaced this one";
    BackendError::permanent(BACKEND, Outcome::NotApplied, context, "it gets no more requests")
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.key_events.heard_on(None);
    }
}
