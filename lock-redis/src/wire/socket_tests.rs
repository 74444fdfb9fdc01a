//! Tests the choice of the side that moves the bytes, and its wake-ups, in chosen orders.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::future::{FutureExt, pending};
use futures_util::task::AtomicWaker;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use super::socket::{Side, Socket};

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
    assert!(socket.has_ended());
    assert_eq!(told.try_recv(), Err(TryRecvError::Closed));
}

/// Nobody moves bytes while nothing is asked.
#[test]
fn an_end_that_nobody_saw_is_found_before_the_next_request() {
    let (end, ended) = oneshot::channel::<()>();
    let socket = Socket::new(Some(ended.map(drop).boxed()));
    assert!(!socket.has_ended());
    drop(end);
    assert!(socket.has_ended());
}

#[test]
fn a_caller_is_woken_though_another_has_looked_for_the_end() {
    let (wire, caller) = (Wire::default(), poller());
    let socket = wire.socket();
    let mut alone = pin!(socket.wait(Side::Caller, pending::<()>()));
    assert!(caller.poll(alone.as_mut()).is_pending());
    assert!(!socket.has_ended());
    wire.tell();
    assert!(caller.is_woken());
}
