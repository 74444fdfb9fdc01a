//! A message from one client to another that has subscribed.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures_util::StreamExt;
use redis::aio::{MultiplexedConnection, PubSubStream};
use redis::cmd;

use crate::client::Result;
use crate::wake_up::WakeUp;

const CHANNEL: &str = "floor";

pub(crate) struct Publish {
    publisher: MultiplexedConnection,
    messages: PubSubStream,
}

impl Publish {
    pub(crate) async fn at(url: &str) -> Result<Self> {
        let client = redis::Client::open(url)?;
        let mut subscriber = client.get_async_pubsub().await?;
        subscriber.subscribe(CHANNEL).await?;
        let publisher = client.get_multiplexed_async_connection().await?;
        Ok(Self { publisher, messages: subscriber.into_on_message() })
    }
}

#[async_trait]
impl WakeUp for Publish {
    async fn once(&mut self) -> Result<Duration> {
        let mut publish = cmd("PUBLISH");
        publish.arg(CHANNEL).arg("wake up");
        let sent = Instant::now();
        let heard = async { self.messages.next().await.map(|_| sent.elapsed()) };
        let (published, took) =
            tokio::join!(publish.query_async::<i64>(&mut self.publisher), heard);
        published?;
        Ok(took.ok_or("the subscription ended")?)
    }
}
