//! A Redis server.

use std::time::Duration;

use async_trait::async_trait;
use lock_testkit::RedisServer;

use super::Store;
use crate::client::Result;
use crate::contender::Contender;
use crate::cpu;
use crate::floors::{pings, publish};
use crate::ours::LEASEHOLD;
use crate::peers::{by_hand, rslock};
use crate::wake_up::WakeUp;

pub(crate) const CONTENDERS: &[Contender] =
    &[LEASEHOLD, by_hand::WITH_A_TOKEN, by_hand::SET_NX, rslock::RSLOCK];

pub(crate) const FLOOR: Contender = pings::PINGS;

/// Commands that the project's clients send. The server also counts the commands that their scripts call; none of
/// these is among them.
const SENT: [&str; 7] =
    ["eval", "evalsha", "ping", "subscribe", "unsubscribe", "ssubscribe", "sunsubscribe"];

pub(crate) struct Redis {
    server: RedisServer,
    url: String,
}

impl Redis {
    pub(crate) async fn start() -> Self {
        let server = RedisServer::start().await;
        Self { url: server.url(), server }
    }
}

#[async_trait]
impl Store for Redis {
    fn url(&self) -> &str {
        &self.url
    }

    async fn wake_up(&self) -> Result<Option<Box<dyn WakeUp>>> {
        Ok(Some(Box::new(publish::Publish::at(&self.url).await?)))
    }

    async fn requests(&self) -> Result<Option<u64>> {
        Ok(Some(requests(&self.server)))
    }

    fn cpu(&self) -> Result<Option<Duration>> {
        cpu::of(self.server.pid()).map(Some)
    }
}

/// Returns the number of requests of the project's clients that a server has taken so far.
pub(super) fn requests(server: &RedisServer) -> u64 {
    server.cli(&["INFO", "commandstats"]).text().lines().filter_map(calls_by_clients).sum()
}

/// Parses a line such as `cmdstat_evalsha:calls=12,usec=…`.
fn calls_by_clients(line: &str) -> Option<u64> {
    let (command, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
    let (calls, _) = rest.split_once(',')?;
    SENT.contains(&command).then(|| calls.parse().ok())?
}
