//! One socket to the server, which requests share.
//!
//! A write to a socket costs more than the rest of a small request. So a task of the link gathers requests of many
//! callers of the same time, and sends them in one write. A request that is alone bypasses that task, since a change
//! of tasks costs time.
//!
//! ```text
//!               none is outstanding
//!   request ──────────────────────────────▶ driver ──▶ socket
//!      │                                      ▲
//!      └──────────▶ queue ──▶ task: batch ────┘
//!        others are
//! ```
//!
//! The caller or the task [moves the bytes](crate::wire::socket), depending on which of them waits for the reply.
//!
//! A queued request is outstanding until it is answered, even if its caller has left. So no request that goes alone
//! overtakes the queue. In the queue a request keeps its place, with two exceptions: it goes earlier
//! [together with others](crate::wire::batch), or it is left by such a call and goes with the next batch, unless its
//! caller has left. So no request of a claim is sent after its withdrawal (C19).

use std::future::ready;
use std::io;
use std::mem::take;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt, join, join_all};
use futures_util::stream::{FuturesUnordered, StreamExt};
use lock_core::backend::ReplyMonitor;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, RedisError, Value, cmd, from_redis_value};
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, yield_now};
use tokio::time::timeout;

use crate::protocol::error::{REPLICA, code_of};
use crate::protocol::message::Message;
use crate::wire::batch::{self, BatchOutcome, Manner, Outstanding, Request};
use crate::wire::delivery::{Delivery, Reply};
use crate::wire::opening::{self, Opener};
use crate::wire::socket::{Side, Socket};
use crate::wire::together::Together;

/// Longest time for opening a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// Time without a reply after which a connection counts as dead.
const REPLY_LIMIT: Duration = Duration::from_secs(2);

/// Name of connections at the server.
const NAME: &str = "leasehold";

/// Number of requests in one write.
const BATCH: usize = 32;

/// Number of batches that wait for replies. The driver has room for them, and for a request that is alone: so it
/// accepts each at once, and in order.
const BATCHES: usize = 32;

/// Role that a server must have.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Role {
    Any,
    /// The server reports its facts, and learns the programs of these calls, before it gets requests.
    #[cfg_attr(not(feature = "quorum"), allow(dead_code, reason = "for a quorum alone"))]
    Voter(fn() -> Vec<Cmd>),
    /// A primary: on a replica, grants that it has not received yet would look lost.
    #[cfg_attr(not(feature = "sentinel"), allow(dead_code, reason = "for sentinels alone"))]
    Primary,
}

/// One socket, or the attempt to open it. It never becomes another socket: the server carries out requests over one
/// link in their order.
///
/// Callers share the attempt to open it, and the attempt continues when they leave. Otherwise a connection that opens
/// more slowly than callers leave would never be made.
pub(crate) struct Link {
    pub(crate) replies: ReplyMonitor,
    opened: watch::Receiver<Option<Result<Opened, RedisError>>>,
    outstanding: Arc<AtomicUsize>,
    queue: mpsc::UnboundedSender<Request>,
    task: AbortHandle,
}

/// A connection, and the future that moves its bytes.
#[derive(Clone)]
struct Opened {
    driver: MultiplexedConnection,
    socket: Arc<Socket>,
    /// The opener of more connections to the same server.
    way: Opener,
    /// The answer to INFO of a [`Role::Voter`], and empty for any other.
    #[cfg_attr(not(feature = "quorum"), allow(dead_code, reason = "voters alone are asked"))]
    told: Arc<str>,
}

impl Link {
    /// Opens the link, and signals `told_open` once it is open.
    pub(crate) fn open(
        opener: Opener,
        role: Role,
        told_open: watch::Sender<Option<Opener>>,
    ) -> Self {
        let (tell, opened) = watch::channel(None);
        let (queue, requests) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            let connect = |opener| async move { connected(&opener, role).await };
            let opened = opener.log_in(connect).await;
            tell.send_replace(Some(opened.clone()));
            if let Ok(opened) = opened {
                told_open.send_replace(Some(opened.way.clone()));
                drop(told_open);
                carry(&opened, requests).await;
            }
        });
        let (replies, outstanding) = (Default::default(), Arc::default());
        Self { replies, opened, outstanding, queue, task: task.abort_handle() }
    }

    /// Returns true if it was opened, as far as is known now.
    pub(crate) fn is_open(&self) -> bool {
        matches!(*self.opened.borrow(), Some(Ok(_)))
    }

    /// Returns true if it was open, and the server has closed it.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(&*self.opened.borrow(), Some(Ok(opened)) if opened.socket.has_ended())
    }

    /// Returns the server's facts about itself when it was opened, if it is a [`Role::Voter`].
    #[cfg(feature = "quorum")]
    pub(crate) fn told(&self) -> Arc<str> {
        match &*self.opened.borrow() {
            Some(Ok(opened)) => opened.told.clone(),
            _ => Arc::default(),
        }
    }

    /// Waits until it is open.
    pub(crate) async fn opened(&self) -> Result<(), RedisError> {
        if let Some(opened) = &*self.opened.borrow() {
            return told(opened);
        }
        let mut opened = self.opened.clone();
        match opened.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(opened)) => told(opened),
            // The runtime that opened it has ended.
            Ok(None) | Err(_) => Err(closed()),
        }
    }

    /// Asks over a link that is open, and waits for the reply.
    pub(crate) async fn ask(&self, mut message: Message, manner: Manner) -> Reply {
        let (outstanding, alone) = Outstanding::begin(&self.outstanding);
        if alone && manner == Manner::Plain {
            // On the heap, since it is larger than the rest.
            return Box::pin(self.ask_alone(message.take_command())).await;
        }
        let (request, reply) = Request::new(message, manner, outstanding);
        if self.queue.send(request).is_err() {
            return Err(closed());
        }
        reply.await.unwrap_or_else(|_| Err(closed()))
    }

    async fn ask_alone(&self, command: Cmd) -> Reply {
        let opened = self.opened.borrow().clone();
        let Some(Ok(Opened { mut driver, socket, .. })) = opened else { return Err(closed()) };
        let mut reply = pin!(driver.send_packed_command(&command));
        let reply = match socket.ask(Side::Caller, reply.as_mut()) {
            Some(reply) => reply,
            None => socket.wait(Side::Caller, reply).await,
        };
        reply?.extract_error()
    }
}

fn told(opened: &Result<Opened, RedisError>) -> Result<(), RedisError> {
    opened.as_ref().map(|_| ()).map_err(Clone::clone)
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Opens a connection by the first way to a server of this role.
async fn connected(opener: &Opener, role: Role) -> Result<Opened, RedisError> {
    let ways = timeout(CONNECT_LIMIT, opening::ways(opener)).await;
    match &ways.unwrap_or_else(|_| Err(too_late()))?[..] {
        [only] => connected_by(only, role).await,
        several => connected_by_any(several, role).await,
    }
}

/// Tries several ways at once. The addresses of a name may be those of a primary and its replicas, so only a primary
/// will do. The error says what each way answered.
async fn connected_by_any(ways: &[Opener], role: Role) -> Result<Opened, RedisError> {
    let attempt = async |way: &Opener| {
        let opened = connected_by(way, role).await?;
        match role {
            Role::Any => refuse_known_replica(&opened).await.map(|()| opened),
            Role::Voter(_) | Role::Primary => Ok(opened),
        }
    };
    let said = async |way| (way, attempt(way).await);
    let (mut attempts, mut failed) =
        (ways.iter().map(said).collect::<FuturesUnordered<_>>(), Vec::new());
    while let Some((way, said)) = attempts.next().await {
        match said {
            Ok(opened) => return Ok(opened),
            Err(error) => failed.push((way.info().addr().to_string(), error)),
        }
    }
    // A server that refuses us says more than one that cannot be reached.
    if let Some((_, refused)) = failed.iter().find(|(_, error)| error.code().is_some()) {
        return Err(refused.clone());
    }
    let failed: Vec<String> = failed.iter().map(|(way, error)| format!("{way}: {error}")).collect();
    Err(io::Error::other(failed.join("; ")).into())
}

/// Fails if the server says that it is a replica. A user may lack the right to ask.
async fn refuse_known_replica(opened: &Opened) -> Result<(), RedisError> {
    let mut driver = opened.driver.clone();
    match opened.socket.wait(Side::Caller, refuse_replica(&mut driver)).await {
        Err(unknown) if unknown.code().is_some() => Ok(()),
        told => told,
    }
}

async fn connected_by(way: &Opener, role: Role) -> Result<Opened, RedisError> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT_LIMIT))
        .set_response_timeout(Some(REPLY_LIMIT))
        .set_pipeline_buffer_size(BATCHES + 1);
    let opened = timeout(CONNECT_LIMIT, opening::open(way, &config)).await;
    let (mut driver, socket) = match opened.unwrap_or_else(|_| Err(too_late())) {
        Err(error) if way.is_by_tls() => return Err(way.explained(no_tls(error)).await),
        opened => opened?,
    };
    let named = named(driver.clone(), way);
    let checked = async {
        match role {
            // C12: a proxy may accept a connection before it has one to the server. Opening waits for it, within its
            // time limit; otherwise the first request would.
            Role::Any => {
                let answer = driver.send_packed_command(&cmd("PING")).await?.extract_error();
                answer.map(drop).or_else(serves_reads)?;
                Ok(String::new())
            }
            Role::Voter(lessons) => introduced(&driver, &lessons()).await,
            Role::Primary => refuse_replica(&mut driver).await.map(|()| String::new()),
        }
    };
    // In one round trip.
    let (_, told) = socket.wait(Side::Caller, join(named, checked)).await;
    let told = match told {
        // By TLS 1.3 a server refuses a certificate after the client's part of the handshake.
        Err(error) if way.is_by_tls() => return Err(way.explained(error).await),
        told => told.map_err(ended)?.into(),
    };
    Ok(Opened { driver, socket: Arc::new(socket), way: way.clone(), told })
}

/// Names the connection, so that operators know it in the server's list of clients. Unlike CLIENT, HELLO needs no right.
/// A server without names does no harm.
async fn named(mut driver: MultiplexedConnection, way: &Opener) {
    let protocol = way.info().redis_settings().protocol();
    let version = if protocol.supports_resp3() { 3 } else { 2 };
    let mut hello = cmd("HELLO");
    hello.arg(version).arg("SETNAME").arg(NAME);
    // The answer to the next request tells more.
    let _ = driver.send_packed_command(&hello).await;
}

/// Asks a server for its facts, and teaches it programs in the same round trip. A program that it does not learn is
/// sent to it when it is run.
async fn introduced(driver: &MultiplexedConnection, lessons: &[Cmd]) -> Result<String, RedisError> {
    let send = |command: Cmd| {
        let mut driver = driver.clone();
        async move { driver.send_packed_command(&command).await }
    };
    let learning = join_all(lessons.iter().cloned().map(send));
    let (told, _) = join(send(cmd("INFO")), learning).await;
    Ok(from_redis_value(told?.extract_error()?)?)
}

async fn refuse_replica(driver: &mut MultiplexedConnection) -> Result<(), RedisError> {
    let told: Vec<Value> = cmd("ROLE").query_async(driver).await?;
    let told: Option<String> = told.into_iter().next().map(from_redis_value).transpose()?;
    match told.as_deref() {
        Some("master") => Ok(()),
        _ => Err(io::Error::other(REPLICA).into()),
    }
}

/// Accepts a server that cannot write to its disk: it refuses PING too, but answers reads.
fn serves_reads(refused: RedisError) -> Result<(), RedisError> {
    if code_of(&refused) == "MISCONF" { Ok(()) } else { Err(refused) }
}

fn closed() -> RedisError {
    io::Error::from(io::ErrorKind::NotConnected).into()
}

fn too_late() -> RedisError {
    io::Error::from(io::ErrorKind::TimedOut).into()
}

/// The error of a server that does not use TLS.
fn no_tls(error: RedisError) -> RedisError {
    match error.is_timeout() {
        true => {
            let text = format!("{error}: if the server speaks no TLS, say redis, not rediss");
            io::Error::new(io::ErrorKind::TimedOut, text).into()
        }
        false => error,
    }
}

/// The error of a server that ends a connection without TLS at its first request.
fn ended(error: RedisError) -> RedisError {
    match error.is_connection_dropped() {
        true => {
            let text = format!(
                "{error}: the server is full (maxclients), or speaks TLS (say rediss, not redis)"
            );
            io::Error::new(io::ErrorKind::ConnectionReset, text).into()
        }
        false => error,
    }
}

/// Sends queued requests for as long as the link lives.
async fn carry(opened: &Opened, mut queue: mpsc::UnboundedReceiver<Request>) {
    let Opened { driver, socket, .. } = opened;
    let together = Together::default();
    let (mut batch, mut batches) =
        (Vec::new(), FuturesUnordered::<BoxFuture<'_, BatchOutcome>>::new());
    let mut delivery = Delivery::default();
    loop {
        tokio::select! {
            biased;
            Some(outcome) = socket.wait(Side::Task, batches.next()), if !batches.is_empty() => {
                let BatchOutcome { answers, left } = outcome;
                leave(&mut batch, left);
                delivery.deliver(answers);
                if batches.is_empty() {
                    socket.task_rests();
                }
            }
            () = gather(&mut queue, &mut batch), if batches.len() < BATCHES => {
                if batch.is_empty() {
                    return;
                }
                let mut batch = batch::send(driver.clone(), &together, take(&mut batch)).boxed();
                let outcome = socket.ask(Side::Task, &mut batch);
                batches.push(outcome.map_or(batch, |outcome| ready(outcome).boxed()));
            }
        }
    }
}

/// Puts the left requests before those asked since then.
///
/// A request whose caller left is dropped: a withdrawal of its claim may have been sent (C19).
fn leave(batch: &mut Vec<Request>, mut left: Vec<Request>) {
    left.retain(Request::is_wanted);
    batch.splice(..0, left);
}

/// Takes a batch out of the queue: an empty one only if the link is gone. The future may be dropped and made again.
async fn gather(queue: &mut mpsc::UnboundedReceiver<Request>, batch: &mut Vec<Request>) {
    if batch.is_empty() {
        queue.recv_many(batch, BATCH).await;
    }
    // Lets tasks that are about to ask join the batch.
    yield_now().await;
    let more = std::iter::from_fn(|| queue.try_recv().ok());
    batch.extend(more.take(BATCH.saturating_sub(batch.len())));
}

#[cfg(test)]
mod tests;
