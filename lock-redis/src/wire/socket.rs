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
use std::pin::pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Wake, Waker};

use futures_util::future::{BoxFuture, FutureExt};

use super::sync::{AtomicWaker, Mutex, MutexGuard};

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
    has_ended: bool,
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

    fn advance(&mut self, mover: &Arc<Relay>) {
        let mover = Waker::from(mover.clone());
        let mut cx = Context::from_waker(&mover);
        if self.bytes.as_mut().is_some_and(|bytes| bytes.poll_unpin(&mut cx).is_ready()) {
            self.bytes = None;
            self.has_ended = true;
        }
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
    /// Returns a socket that moves these bytes; `None` if the driver has a task for them.
    pub(crate) fn new(bytes: Option<Bytes>) -> Self {
        let moving = Mutex::new(Moving { bytes, has_ended: false, by: Side::Caller });
        Self { moving, mover: Arc::default(), caller: Arc::default(), task: Arc::default() }
    }

    /// Returns true if the connection has ended: the server may have closed it since the last reply, when nobody moved
    /// bytes. It is not known if the driver has a task for them.
    pub(crate) fn has_ended(&self) -> bool {
        let mut moving = self.moving();
        moving.advance(&self.mover);
        moving.has_ended
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
            moving.advance(&self.mover);
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
