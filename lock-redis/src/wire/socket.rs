//! The socket of a link, and the choice of the side that moves its bytes.
//!
//! The driver puts each request into a queue. A future of the driver takes it out, writes it, and reads the replies.
//! As a task, that future would cost each request two changes of task, often of thread too. So the sides that wait
//! for replies poll it:
//!
//! ```text
//!   no batch is on its way:      the caller whose request is alone
//!   batches are on their way:    the task of the link
//! ```
//!
//! A caller may not be polled for any time, and then moves nothing. This does not delay others: as soon as another
//! caller asks, the task moves the bytes of both.
//!
//! The moving side sends a request and reads its own reply, and each would wake it while it runs. Tokio would then
//! poll it once more, on another thread. So it is woken by a [`Relay`], which is empty while it runs.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Wake, Waker};

use futures_util::future::{BoxFuture, FutureExt, select_ok};
use futures_util::task::AtomicWaker;
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::io::tcp::socket2::SockRef;
use redis::{AsyncConnectionConfig, Client, ConnectionAddr, RedisError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};

/// Moves bytes between the queue of the driver and the server. It ends with the connection.
type Bytes = BoxFuture<'static, ()>;

/// The socket of one link.
pub(crate) struct Socket {
    moving: Mutex<Moving>,
    /// Wakes the moving side when there are more bytes.
    mover: Arc<Relay>,
    /// Wakes the caller that is alone, when it has its reply.
    caller: Arc<Relay>,
    /// Wakes the task, when a batch has its replies.
    task: Arc<Relay>,
}

struct Moving {
    /// `None` if the driver has a task for them, or the connection has ended.
    bytes: Option<Bytes>,
    /// The side that moves the bytes.
    by: Side,
}

/// The sides that wait for replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The caller of the only outstanding request.
    Caller,
    /// The task, which waits for batches.
    Task,
}

impl Moving {
    /// Returns true if this side moves bytes now. The task takes over from a caller.
    fn is_turn_of(&mut self, side: Side) -> bool {
        if side == Side::Task {
            self.by = side;
        }
        self.by == side
    }
}

/// A waker that forwards to the waker in it.
#[derive(Default)]
struct Relay(AtomicWaker);

impl Wake for Relay {
    fn wake(self: Arc<Self>) {
        self.0.wake();
    }
}

impl Socket {
    fn new(bytes: Option<Bytes>) -> Self {
        let moving = Mutex::new(Moving { bytes, by: Side::Caller });
        Self { moving, mover: Arc::default(), caller: Arc::default(), task: Arc::default() }
    }

    /// Asks, by the first poll of `reply`; returns the reply if it is there at once.
    pub(crate) fn ask<F: Future + Unpin>(&self, side: Side, reply: F) -> Option<F::Output> {
        self.silence(side);
        reply.now_or_never()
    }

    /// Waits for the reply, and moves bytes meanwhile. A caller leaves the bytes to the task while batches are in
    /// flight.
    ///
    /// # Cancel safety
    /// As `reply`. After that no bytes move until somebody asks again, unless the task moves them.
    pub(crate) async fn wait<T>(&self, side: Side, reply: impl Future<Output = T>) -> T {
        let mut reply = pin!(reply);
        let relay = self.relay(side);
        let waker = Waker::from(relay.clone());
        let reply = poll_fn(|cx| {
            relay.0.take();
            self.move_bytes(side, cx.waker());
            reply.as_mut().poll(&mut Context::from_waker(&waker))
        });
        let reply = reply.await;
        relay.0.take();
        self.silence(side);
        reply
    }

    /// Notes that no batch is in flight any more: a caller that is alone takes over.
    pub(crate) fn task_rests(&self) {
        let mut moving = self.moving();
        moving.by = Side::Caller;
        self.mover.0.take();
        drop(moving);
        self.caller.0.wake();
    }

    /// Removes the waker of the moving side, which must not be woken by its own request or reply.
    fn silence(&self, side: Side) {
        let mut moving = self.moving();
        // The mutex is held until the waker is removed: the other side may take over right after it, and must be
        // woken then.
        if moving.is_turn_of(side) {
            self.mover.0.take();
        }
    }

    fn move_bytes(&self, side: Side, waker: &Waker) {
        let mut moving = self.moving();
        if moving.is_turn_of(side) {
            self.mover.0.register(waker);
            let mover = Waker::from(self.mover.clone());
            let mut cx = Context::from_waker(&mover);
            if moving.bytes.as_mut().is_some_and(|bytes| bytes.poll_unpin(&mut cx).is_ready()) {
                moving.bytes = None;
            }
        }
        // The waker is registered after the bytes were moved, since the replies are read next. It is registered
        // under the mutex, since the task may rest right after that.
        self.relay(side).0.register(waker);
    }

    fn relay(&self, side: Side) -> &Arc<Relay> {
        match side {
            Side::Caller => &self.caller,
            Side::Task => &self.task,
        }
    }

    fn moving(&self) -> MutexGuard<'_, Moving> {
        self.moving.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens a connection, and the future that moves its bytes.
pub(crate) async fn open(
    client: &Client,
    config: &AsyncConnectionConfig,
) -> Result<(MultiplexedConnection, Socket), RedisError> {
    let info = client.get_connection_info();
    match info.addr() {
        ConnectionAddr::Tcp(host, port) => {
            over(tcp(host, *port, info.tcp_settings()).await?, client, config).await
        }
        #[cfg(unix)]
        ConnectionAddr::Unix(path) => {
            over(tokio::net::UnixStream::connect(path).await?, client, config).await
        }
        // With TLS the driver returns no stream: it moves the bytes in its own task.
        _ => {
            let driver = client.get_multiplexed_async_connection_with_config(config).await?;
            Ok((driver, Socket::new(None)))
        }
    }
}

async fn over(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    client: &Client,
    config: &AsyncConnectionConfig,
) -> Result<(MultiplexedConnection, Socket), RedisError> {
    let settings = client.get_connection_info().redis_settings();
    let (driver, bytes) =
        MultiplexedConnection::new_with_config(settings, stream, config.clone()).await?;
    Ok((driver, Socket::new(Some(bytes.boxed()))))
}

/// Returns a connection to the first address of the host that accepts one.
async fn tcp(host: &str, port: u16, settings: &TcpSettings) -> io::Result<TcpStream> {
    let addresses: Vec<SocketAddr> = lookup_host((host, port)).await?.collect();
    if addresses.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the host has no address"));
    }
    let attempts = addresses.into_iter().map(|address| TcpStream::connect(address).boxed());
    let (stream, _) = select_ok(attempts).await?;
    let socket = SockRef::from(&stream);
    socket.set_tcp_nodelay(settings.nodelay())?;
    if let Some(keepalive) = settings.keepalive() {
        socket.set_tcp_keepalive(keepalive)?;
    }
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(settings.user_timeout())?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::task::Poll;

    use futures_util::future::pending;
    use tokio::sync::oneshot;
    use tokio::sync::oneshot::error::TryRecvError;

    use super::*;

    /// Bytes that count their moves, with the waker for more bytes.
    #[derive(Clone, Default)]
    struct Wire(Arc<(AtomicUsize, AtomicWaker)>);

    impl Wire {
        fn socket(&self) -> Socket {
            let wire = self.clone();
            let bytes = poll_fn(move |cx| {
                wire.0.0.fetch_add(1, Ordering::Relaxed);
                wire.0.1.register(cx.waker());
                Poll::Pending
            });
            Socket::new(Some(bytes.boxed()))
        }

        fn moved(&self) -> usize {
            self.0.0.load(Ordering::Relaxed)
        }

        /// Wakes as the kernel does when more bytes have come, and as the driver does when more is asked.
        fn tell(&self) {
            self.0.1.wake();
        }
    }

    /// A poller that may be woken.
    #[derive(Default)]
    struct Poller(AtomicBool);

    impl Wake for Poller {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    impl Poller {
        fn is_woken(&self) -> bool {
            self.0.swap(false, Ordering::Relaxed)
        }

        fn poll<F: Future + Unpin>(self: &Arc<Self>, mut future: F) -> Poll<F::Output> {
            let waker = Waker::from(self.clone());
            future.poll_unpin(&mut Context::from_waker(&waker))
        }
    }

    fn poller() -> Arc<Poller> {
        Arc::default()
    }

    #[test]
    fn one_that_is_alone_moves_its_bytes_and_is_woken_for_more() {
        let (wire, caller) = (Wire::default(), poller());
        let socket = wire.socket();
        let mut alone = pin!(socket.wait(Side::Caller, pending::<()>()));
        assert!(caller.poll(alone.as_mut()).is_pending());
        assert_eq!(wire.moved(), 1);
        wire.tell();
        assert!(caller.is_woken());
    }

    #[test]
    fn one_that_reads_its_own_reply_is_not_woken_by_that() {
        let caller = poller();
        let (answer, reply) = oneshot::channel();
        let mut answers = [None, Some(answer)].into_iter();
        let reads = poll_fn(move |_| {
            if let Some(Some(answer)) = answers.next() {
                let _ = answer.send(());
            }
            Poll::Pending
        });
        let socket = Socket::new(Some(reads.boxed()));
        let mut alone = pin!(socket.wait(Side::Caller, reply));
        assert!(caller.poll(alone.as_mut()).is_pending());
        assert_eq!(caller.poll(alone.as_mut()), Poll::Ready(Ok(())));
        assert!(!caller.is_woken());
    }

    #[test]
    fn one_that_asks_wakes_neither_itself_nor_the_one_before() {
        let (wire, before, task) = (Wire::default(), poller(), poller());
        let (answer, reply) = oneshot::channel();
        let socket = wire.socket();
        let mut alone = pin!(socket.wait(Side::Caller, reply));
        assert!(before.poll(alone.as_mut()).is_pending());
        assert_eq!(answer.send(()), Ok(()));
        assert!(before.is_woken());
        assert!(before.poll(alone.as_mut()).is_ready());
        let mut batches = pin!(socket.wait(Side::Task, pending::<()>()));
        for _ in 0..2 {
            assert!(socket.ask(Side::Task, pin!(async { wire.tell() })).is_some());
            assert_eq!((before.is_woken(), task.is_woken()), (false, false));
            assert!(task.poll(batches.as_mut()).is_pending());
        }
    }

    #[test]
    fn one_is_woken_by_a_reply_that_another_has_read() {
        let (wire, caller) = (Wire::default(), poller());
        let (answer, reply) = oneshot::channel();
        let socket = wire.socket();
        let mut alone = pin!(socket.wait(Side::Caller, reply));
        assert!(caller.poll(alone.as_mut()).is_pending());
        assert_eq!(answer.send(()), Ok(()));
        assert!(caller.is_woken());
    }

    /// A caller may not be polled for a long time.
    #[test]
    fn the_task_takes_over_from_one_that_is_alone_until_it_rests() {
        let (wire, caller, task) = (Wire::default(), poller(), poller());
        let socket = wire.socket();
        let mut alone = pin!(socket.wait(Side::Caller, pending::<()>()));
        assert!(caller.poll(alone.as_mut()).is_pending());
        let mut batches = pin!(socket.wait(Side::Task, pending::<()>()));
        assert!(task.poll(batches.as_mut()).is_pending());
        wire.tell();
        assert_eq!((caller.is_woken(), task.is_woken()), (false, true));
        // The caller leaves the bytes to the task when it comes.
        assert!(caller.poll(alone.as_mut()).is_pending());
        assert_eq!(wire.moved(), 2);
        socket.task_rests();
        assert!(caller.is_woken());
        assert!(caller.poll(alone.as_mut()).is_pending());
        assert_eq!(wire.moved(), 3);
        wire.tell();
        assert_eq!((caller.is_woken(), task.is_woken()), (true, false));
    }

    #[test]
    fn what_has_ended_is_not_polled_again() {
        let (gone, mut told) = oneshot::channel::<()>();
        let bytes = async move { drop(gone) };
        let socket = Socket::new(Some(bytes.boxed()));
        let mut alone = pin!(socket.wait(Side::Caller, pending::<()>()));
        let caller = poller();
        for _ in 0..2 {
            assert!(caller.poll(alone.as_mut()).is_pending());
        }
        assert_eq!(told.try_recv(), Err(TryRecvError::Closed));
    }
}
