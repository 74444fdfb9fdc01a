//! A Redis server, beside the usual recipe and rslock. The floors are two PINGs, and a message from one client to
//! another that has subscribed.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures_util::StreamExt;
use lock_testkit::RedisServer;
use redis::aio::{MultiplexedConnection, PubSubStream};
use redis::{Script, cmd};
use tokio::time::sleep;

use super::{Row, Store, WakeUp};
use crate::client::{Client, Result, TTL};
use crate::contender::Contender;
use crate::cpu;
use crate::ours::LEASEHOLD;

pub(crate) const ROW: Row = Row {
    name: "redis",
    start: || Box::pin(async { Ok(Box::new(RedisServer::start().await) as Box<dyn Store>) }),
    contenders: &[
        LEASEHOLD,
        Contender::of::<ByHand<true>>(WITH_A_TOKEN),
        Contender::of::<ByHand<false>>("SET NX PX"),
        Contender::of::<Rslock>("rslock"),
    ],
    floor: Some(Contender::of::<Pings>("2 PINGs")),
    wake_up: "PUBLISH",
};

pub(crate) const WITH_A_TOKEN: &str = "by hand with a token";

/// Commands that the project's clients send. The server also counts the commands that their scripts call; none of
/// these is among them.
const SENT: [&str; 7] =
    ["eval", "evalsha", "ping", "subscribe", "unsubscribe", "ssubscribe", "sunsubscribe"];

const CHANNEL: &str = "floor";

/// Interval of the polls of the recipe.
const POLL: Duration = Duration::from_millis(10);

/// -> the token; nothing if another owner has the lock.
const TAKE_AND_COUNT: &str = "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then \
     return redis.call('INCR', KEYS[2]) end return false";

const DELETE_OWN: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
     return redis.call('DEL', KEYS[1]) end return 0";

#[async_trait]
impl Store for RedisServer {
    fn url(&self) -> String {
        self.url()
    }

    async fn wake_up(&self) -> Result<Option<Box<dyn WakeUp>>> {
        let mut subscriber = redis::Client::open(self.url())?.get_async_pubsub().await?;
        subscriber.subscribe(CHANNEL).await?;
        let (publisher, messages) = (driver(&self.url()).await?, subscriber.into_on_message());
        Ok(Some(Box::new(Publish { publisher, messages })))
    }

    async fn requests(&self) -> Result<Option<u64>> {
        Ok(Some(requests(self)))
    }

    fn cpu(&self) -> Result<Option<Duration>> {
        cpu::of(self.pid()).map(Some)
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

/// Connects the driver alone.
async fn driver(url: &str) -> Result<MultiplexedConnection> {
    Ok(redis::Client::open(url)?.get_multiplexed_async_connection().await?)
}

struct Pings(MultiplexedConnection);

#[async_trait]
impl Client for Pings {
    async fn connect(url: &str) -> Result<Self> {
        driver(url).await.map(Self)
    }

    async fn acquire(&mut self, _: &str) -> Result<()> {
        Ok(cmd("PING").query_async(&mut self.0).await?)
    }

    async fn release(&mut self, name: &str) -> Result<()> {
        self.acquire(name).await
    }

    fn another(&self) -> Box<dyn Client> {
        Box::new(Self(self.0.clone()))
    }
}

struct Publish {
    publisher: MultiplexedConnection,
    messages: PubSubStream,
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

/// The usual recipe of blog posts, written by hand: no queue, no renewal, no repair. Two forms: as published, and
/// with a fencing token, which gives the same guarantee as the project: a script takes the lock and counts.
struct ByHand<const COUNTS: bool> {
    connection: MultiplexedConnection,
    value: String,
    take_and_count: Script,
    delete_own: Script,
}

impl<const COUNTS: bool> ByHand<COUNTS> {
    fn by(connection: MultiplexedConnection) -> Self {
        let (take_and_count, delete_own) = (Script::new(TAKE_AND_COUNT), Script::new(DELETE_OWN));
        Self { connection, value: rand::random::<u128>().to_string(), take_and_count, delete_own }
    }

    async fn takes(&mut self, name: &str) -> Result<bool> {
        let ttl = TTL.as_millis() as u64;
        if COUNTS {
            let mut take = self.take_and_count.key(name);
            take.key(format!("{{{name}}}:fence")).arg(&self.value).arg(ttl);
            return Ok(take.invoke_async::<Option<u64>>(&mut self.connection).await?.is_some());
        }
        let mut set = cmd("SET");
        set.arg(name).arg(&self.value).arg("NX").arg("PX").arg(ttl);
        Ok(set.query_async::<Option<String>>(&mut self.connection).await?.is_some())
    }
}

#[async_trait]
impl<const COUNTS: bool> Client for ByHand<COUNTS> {
    async fn connect(url: &str) -> Result<Self> {
        driver(url).await.map(Self::by)
    }

    async fn acquire(&mut self, name: &str) -> Result<()> {
        while !self.takes(name).await? {
            sleep(POLL).await;
        }
        Ok(())
    }

    async fn release(&mut self, name: &str) -> Result<()> {
        let mut delete = self.delete_own.key(name);
        delete.arg(&self.value).invoke_async::<i64>(&mut self.connection).await?;
        Ok(())
    }

    fn another(&self) -> Box<dyn Client> {
        Box::new(Self::by(self.connection.clone()))
    }
}

/// rslock: Redlock, by polling. Uses several servers if the URL is a list.
pub(super) struct Rslock {
    manager: rslock::LockManager,
    held: Option<rslock::LockGuard>,
}

#[async_trait]
impl Client for Rslock {
    async fn connect(urls: &str) -> Result<Self> {
        Ok(Self { manager: rslock::LockManager::new(urls.split(',').collect()), held: None })
    }

    async fn acquire(&mut self, name: &str) -> Result<()> {
        let acquired = self.manager.acquire(name.as_bytes(), TTL).await;
        self.held = Some(acquired.map_err(|error| format!("{error:?}"))?);
        Ok(())
    }

    async fn release(&mut self, _: &str) -> Result<()> {
        if let Some(guard) = self.held.take() {
            guard.release().await;
        }
        Ok(())
    }

    fn another(&self) -> Box<dyn Client> {
        Box::new(Self { manager: self.manager.clone(), held: None })
    }
}
