//! One socket to the server, and how requests share it.
//!
//! To write to a socket costs more than the rest of a small request. So a task of the link gathers what many
//! callers ask at the same time, and sends it in one write.
//!
//! ```text
//!   callers ──▶ queue ──▶ batch ──▶ driver ──▶ socket
//!      ▲                    │
//!      └──── replies ◀──────┘
//! ```

use std::io;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use lock_core::backend::ReplyMonitor;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, Pipeline, RedisError, Value};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{AbortHandle, yield_now};

/// How long opening a connection may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// After how long without a reply a connection is taken for dead.
const REPLY_LIMIT: Duration = Duration::from_secs(2);

/// How many requests go in one write.
const BATCH: usize = 32;

/// How many batches wait for replies. The driver has room for all of them, and so it keeps their order.
const BATCHES: usize = 32;

/// Tells the links of a connection apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkId(pub(crate) u64);

/// One socket, or the attempt to open it. It never becomes another socket: the server carries out in
/// order what is sent over one link.
///
/// Callers share the attempt to open it, and the attempt goes on when they leave. Otherwise a connection
/// that takes longer to open than a caller stays would never be made.
pub(crate) struct Link {
    pub(crate) id: LinkId,
    pub(crate) replies: ReplyMonitor,
    opened: watch::Receiver<Option<Result<(), RedisError>>>,
    queue: mpsc::UnboundedSender<Request>,
    task: AbortHandle,
}

type Reply = Result<Value, RedisError>;

/// A command, and where its caller waits.
struct Request {
    command: Cmd,
    reply: oneshot::Sender<Reply>,
}

impl Link {
    pub(crate) fn open(id: LinkId, client: Client) -> Self {
        let (tell, opened) = watch::channel(None);
        let (queue, requests) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            let config = AsyncConnectionConfig::new()
                .set_connection_timeout(Some(CONNECT_LIMIT))
                .set_response_timeout(Some(REPLY_LIMIT))
                .set_pipeline_buffer_size(BATCHES);
            match client.get_multiplexed_async_connection_with_config(&config).await {
                Ok(driver) => {
                    tell.send_replace(Some(Ok(())));
                    carry(&driver, requests).await;
                }
                Err(error) => drop(tell.send_replace(Some(Err(error)))),
            }
        });
        let (replies, task) = (ReplyMonitor::default(), task.abort_handle());
        Self { id, replies, opened, queue, task }
    }

    /// Waits until it is open.
    pub(crate) async fn opened(&self) -> Result<(), RedisError> {
        if let Some(opened) = &*self.opened.borrow() {
            return opened.clone();
        }
        let mut opened = self.opened.clone();
        match opened.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(opened)) => opened.clone(),
            // The runtime that opened it has ended.
            Ok(None) | Err(_) => Err(closed()),
        }
    }

    /// Sends a command, and waits for its reply.
    pub(crate) async fn ask(&self, command: Cmd) -> Reply {
        let (reply, answer) = oneshot::channel();
        if self.queue.send(Request { command, reply }).is_err() {
            return Err(closed());
        }
        answer.await.unwrap_or_else(|_| Err(closed()))
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn closed() -> RedisError {
    io::Error::from(io::ErrorKind::NotConnected).into()
}

/// Sends what is asked, for as long as the link lives.
async fn carry(driver: &MultiplexedConnection, mut requests: mpsc::UnboundedReceiver<Request>) {
    let mut batches = FuturesUnordered::new();
    loop {
        let mut batch = Vec::new();
        tokio::select! {
            biased;
            Some(()) = batches.next() => continue,
            _ = requests.recv_many(&mut batch, BATCH), if batches.len() < BATCHES => {}
        }
        if batch.is_empty() {
            return;
        }
        // Those that are about to ask come along. A request that is alone does not wait.
        if !batches.is_empty() {
            yield_now().await;
            let more = std::iter::from_fn(|| requests.try_recv().ok());
            batch.extend(more.take(BATCH.saturating_sub(batch.len())));
        }
        batches.push(send(driver.clone(), batch));
    }
}

/// Sends a batch, and tells each caller its reply.
async fn send(mut driver: MultiplexedConnection, batch: Vec<Request>) {
    let (mut pipeline, mut callers) = (Pipeline::with_capacity(batch.len()), Vec::new());
    for Request { command, reply } in batch {
        pipeline.add_command(command);
        callers.push(reply);
    }
    match driver.send_packed_commands(&pipeline, 0, callers.len()).await {
        Ok(replies) => {
            for (caller, reply) in callers.into_iter().zip(replies) {
                let _ = caller.send(reply.extract_error());
            }
        }
        Err(error) => {
            for caller in callers {
                let _ = caller.send(Err(error.clone()));
            }
        }
    }
}
