//! The primary that sentinels name. It alone keeps all locks, until another server takes over.
//!
//! ```text
//!   sentinels ── "who is the primary called so, since which epoch?" ──▶ the newest address ──▶ ROLE: "master"?
//!       ▲                                                                                          │
//!       └── a second has passed; or it does not answer, or takes no writes any more ───────────────┘
//! ```
//!
//! All sentinels are asked each second while the client lives. One may be cut off from the others and name the former
//! primary. That server may still be a primary: after a planned failover for ten seconds. So the newest answer is
//! used: the one with the greatest epoch, which each failover increases. An answer with an older epoch than the known
//! one is used only if a majority of the sentinels has answered: an operator has then set them up anew.
//!
//! If no sentinel answers, the known primary stays. Its connection is opened again as long as it is the same run of
//! the server.
//!
//! A replaced primary is not asked any more, even if its successor does not answer yet. A request that fails, or that
//! a replica refuses, gives up its [connection](crate::wire::connection), and is repeated (C15). Until a connection
//! is open again, each request makes the client ask the sentinels. A server that does not report itself as primary
//! gets no request.

mod told;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use lock_core::{BackendError, Finding, LockError};
use parking_lot::Mutex;
use redis::cmd;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use self::told::{Named, SentinelAnswers};
use crate::protocol::error::{
    RequestError, classify, lacks_command, no_sentinel, no_server, unknown_primary,
};
use crate::protocol::reply;
use crate::topology::hosts::{Hosts, host_and_port};
use crate::topology::options::{RedisOptions, unusable};
use crate::wire::connection::Connection;
use crate::wire::link::Role;
use crate::wire::node::Node;
use crate::wire::push::new_channel;

const DEFAULT_PORT: u16 = 26379;

/// Interval at which the sentinels are asked.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Least time between two questions to the sentinels.
const PAUSE: Duration = Duration::from_millis(100);

/// Longest wait for a sentinel once another has answered.
const PATIENCE: Duration = Duration::from_millis(250);

/// The sentinels, before any of them was asked.
pub(crate) struct Sentinels {
    /// The connections to the sentinels, and the address of each.
    all: Vec<(String, Connection)>,
    /// The sentinels' name of the primary.
    name: String,
    /// The common part of the URL for all servers that may become the primary.
    servers: Hosts,
    channel: Arc<str>,
}

/// The primary, as far as the client knows.
pub(crate) struct Watched {
    known: Arc<Known>,
    /// The task that asks the sentinels.
    watch: Mutex<Option<AbortHandle>>,
}

struct Known {
    sentinels: Sentinels,
    primary: Mutex<Primary>,
    /// Signalled when the sentinels must be asked at once.
    doubt: Notify,
}

#[derive(Clone)]
struct Primary {
    node: Arc<Node>,
    epoch: u64,
    /// The run of the server, once it was asked; `None` if it does not report one.
    run: Option<String>,
}

impl Primary {
    fn new(node: Node, epoch: u64) -> Self {
        Self { node: Arc::new(node), epoch, run: None }
    }

    /// Asks once for the run of a server that answers. A silent server delays no look at the sentinels.
    async fn identify(&mut self) {
        if self.run.is_none() && !self.node.connection.is_in_doubt() {
            self.run = match timeout(PATIENCE, run_of(&self.node)).await {
                Ok(Err(error)) if error.is_transient() => None,
                Ok(told) => Some(told.unwrap_or_default()),
                Err(_) => None,
            };
        }
    }
}

async fn run_of(node: &Node) -> Result<String, BackendError> {
    let mut info = cmd("INFO");
    info.arg("server");
    let info: String = reply::read(node.send(info).await?, "INFO")?;
    reply::run_id(&info).map(str::to_owned)
}

impl Sentinels {
    /// Returns the sentinels of a URL.
    pub(crate) fn new(options: &RedisOptions) -> Result<Self, LockError> {
        let (sentinels, servers, name) = match options.primary_of_driver() {
            Some((name, settings)) => {
                let (hosts, _) = Hosts::of(options, DEFAULT_PORT)?;
                (hosts.clone().at_sentinels(), hosts.with_settings(settings)?, name)
            }
            None => Self::of_url(options)?,
        };
        if name.is_empty() || name.contains('/') {
            return Err(unusable(
                "the name of the primary comes after the hosts: redis-sentinel://host/name",
            ));
        }
        let connection = |address: &String| {
            Ok((address.clone(), Connection::new(sentinels.opener(address)?, Role::Any)))
        };
        let all: Result<_, LockError> = sentinels.addresses.iter().map(connection).collect();
        Ok(Self { all: all?, name, servers, channel: new_channel() })
    }

    /// Returns the sentinels, the servers that may become the primary, and its name.
    fn of_url(options: &RedisOptions) -> Result<(Hosts, Hosts, String), LockError> {
        let mut parameters = options.parameters();
        let mut taken = |key| parameters.take(key).unwrap_or_default();
        let (user, password, database) =
            (taken("sentinel_user"), taken("sentinel_pass"), taken("db"));
        let (hosts, name) = Hosts::of(&options.at(parameters.url()), DEFAULT_PORT)?;
        let sentinels = hosts.clone().with_sentinel_login(&user, &password)?;
        Ok((sentinels, hosts.with_database(&database)?, name))
    }

    /// Asks for the primary. Nothing works before this.
    pub(crate) async fn find(self) -> Result<Watched, BackendError> {
        let Named { address, epoch, .. } = self.ask().await.newest(None)?;
        let node = self.node_at(address)?;
        node.reach().await?;
        let mut primary = Primary::new(node, epoch);
        primary.identify().await;
        let (primary, doubt) = (Mutex::new(primary), Notify::new());
        let known = Arc::new(Known { sentinels: self, primary, doubt });
        let watched = Watched { known, watch: Mutex::default() };
        watched.keep_watching();
        Ok(watched)
    }

    /// Asks all sentinels, and does not wait for slow ones.
    async fn ask(&self) -> SentinelAnswers {
        let mut asked: FuturesUnordered<_> = self.all.iter().map(|one| self.ask_one(one)).collect();
        let (mut named, mut error) = (Vec::new(), None);
        let mut patience = std::pin::pin!(sleep(PATIENCE));
        loop {
            tokio::select! {
                biased;
                answer = asked.next() => match answer {
                    Some(Ok(answer)) => named.push(answer),
                    // A refusal is a better error than silence.
                    Some(Err(failed)) if error.is_none() || !failed.is_transient() => {
                        error = Some(failed);
                    }
                    Some(Err(_)) => {}
                    None => return SentinelAnswers { named, error },
                },
                () = &mut patience, if !named.is_empty() => return SentinelAnswers { named, error },
            }
        }
    }

    async fn ask_one(
        &self,
        (address, sentinel): &(String, Connection),
    ) -> Result<(String, Named), BackendError> {
        let ask = async |question: &str| {
            let mut command = cmd("SENTINEL");
            command.arg(question).arg(&self.name);
            sentinel.send(command).await.map_err(refused)
        };
        // The epoch is read first: during a failover it may be older than the address, but never newer.
        let state = ask("MASTER").await?;
        let state: HashMap<String, String> = reply::read(state, "the state of the primary")?;
        let number = |key| state.get(key).and_then(|text| text.parse().ok()).unwrap_or(0);
        let named = ask("GET-MASTER-ADDR-BY-NAME").await?;
        let named: Option<(String, u16)> = reply::read(named, "the address of the primary")?;
        let (host, port) = named.ok_or_else(unknown_primary)?;
        let sentinels = usize::try_from(number("num-other-sentinels")).unwrap_or(0) + 1;
        let named =
            Named { address: host_and_port(&host, port), epoch: number("config-epoch"), sentinels };
        Ok((address.clone(), named))
    }

    fn node_at(&self, address: String) -> Result<Node, BackendError> {
        let unusable =
            |error| no_server("the sentinels name an address that cannot be used", error);
        let opener = self.servers.opener(&address).map_err(unusable)?;
        Ok(Node::new(address, opener, Role::Primary, self.channel.clone()))
    }
}

/// The error of a sentinel.
fn refused(error: RequestError) -> BackendError {
    match &error {
        RequestError::Execute(refused)
            if refused.detail().is_some_and(|text| text.contains("No such master")) =>
        {
            unknown_primary()
        }
        RequestError::Execute(_) if lacks_command(&error) => no_sentinel(classify(error)),
        _ => classify(error),
    }
}

impl Known {
    async fn watch(&self) {
        loop {
            // One of the two ends the wait.
            let _ = timeout(LOOK_INTERVAL, self.doubt.notified()).await;
            // If it fails, the next look may succeed.
            let _ = self.look().await;
            sleep(PAUSE).await;
        }
    }

    async fn look(&self) -> Result<(), BackendError> {
        let known = self.primary.lock().clone();
        let told = self.sentinels.ask().await.newest(Some((&known.node.address, known.epoch)));
        let is_in_doubt = known.node.connection.is_in_doubt();
        let mut primary = match told {
            // The same server keeps its connections, unless they failed.
            Ok(Named { address, epoch, .. }) if address == known.node.address => {
                match is_in_doubt {
                    true => Primary::new(self.opened(address).await?, epoch),
                    false => Primary { epoch, ..known },
                }
            }
            // P2: from now on the former primary grants and renews nothing, whatever role it reports.
            Ok(Named { address, epoch, .. }) => {
                Primary::new(self.sentinels.node_at(address)?, epoch)
            }
            // No sentinel reports a replacement. The server has its data if it is the same run.
            Err(error) if is_in_doubt => {
                let node = self.opened(known.node.address.clone()).await?;
                let run = Some(run_of(&node).await?).filter(|run| known.run.as_ref() == Some(run));
                Primary { run: Some(run.ok_or(error)?), ..Primary::new(node, known.epoch) }
            }
            Err(error) => return Err(error),
        };
        *self.primary.lock() = primary.clone();
        // `identify` waits for a reply, so it comes before the first requests.
        primary.identify().await;
        *self.primary.lock() = primary;
        Ok(())
    }

    /// Connects to a server that reports itself as primary.
    async fn opened(&self, address: String) -> Result<Node, BackendError> {
        let node = self.sentinels.node_at(address)?;
        node.reach().await?;
        Ok(node)
    }
}

impl Watched {
    /// Starts the task that asks the sentinels, unless it runs.
    fn keep_watching(&self) {
        let mut watch = self.watch.lock();
        // The watch ended if its runtime did.
        if watch.as_ref().is_none_or(AbortHandle::is_finished) {
            let known = self.known.clone();
            *watch = Some(tokio::spawn(async move { known.watch().await }).abort_handle());
        }
    }
}

impl Watched {
    /// Returns the primary for a request.
    pub(super) fn node(&self) -> Result<Arc<Node>, BackendError> {
        self.keep_watching();
        let primary = self.current();
        // The primary may be back without its data, after another has taken over: the sentinels know.
        if primary.connection.is_in_doubt() {
            self.known.doubt.notify_one();
            return Err(no_server("the primary failed", "the sentinels are asked for it"));
        }
        Ok(primary)
    }

    /// Returns the known primary, even if it failed.
    pub(super) fn current(&self) -> Arc<Node> {
        self.known.primary.lock().node.clone()
    }

    /// C31: asks all sentinels again.
    pub(super) async fn examine(&self) -> Finding {
        let sentinels = &self.known.sentinels;
        sentinels.ask().await.finding(sentinels.all.len())
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let watch = self.watch.get_mut();
        if let Some(watch) = watch {
            watch.abort();
        }
    }
}
