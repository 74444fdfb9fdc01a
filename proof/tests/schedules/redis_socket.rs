//! The socket of a link to Redis: a side that waits gets its reply, whichever side moves the bytes.

use std::future::poll_fn;
use std::mem::take;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::FutureExt;
use shuttle::future::block_on;
use shuttle::sync::Condvar;
use shuttle::thread;

use crate::explore;
use crate::socket::{Side, Socket};
use crate::sync::{AtomicWaker, Mutex};

/// A driver and its server: requests go from the queue to the server, and the replies back, as bytes are moved.
#[derive(Default)]
struct Wire {
    /// Requests that the driver has not written.
    queue: Mutex<Vec<Arc<Request>>>,
    /// Requests that the server has not answered.
    sent: Mutex<Vec<Arc<Request>>>,
    is_sent: Condvar,
    /// Replies that the driver has not read.
    replies: Mutex<Vec<Arc<Request>>>,
    /// Wakes the future that moves bytes, when a request is queued.
    queued: AtomicWaker,
    /// Wakes it when a reply can be read.
    readable: AtomicWaker,
}

#[derive(Default)]
struct Request {
    is_answered: Mutex<bool>,
    answered: AtomicWaker,
}

impl Wire {
    fn move_bytes(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.queued.register(cx.waker());
        self.readable.register(cx.waker());
        let queued = take(&mut *self.queue.lock().unwrap());
        if !queued.is_empty() {
            self.sent.lock().unwrap().extend(queued);
            self.is_sent.notify_one();
        }
        for request in take(&mut *self.replies.lock().unwrap()) {
            *request.is_answered.lock().unwrap() = true;
            request.answered.wake();
        }
        Poll::Pending
    }

    /// Queues a request at the first poll, and waits for its reply.
    async fn ask(&self) {
        let request = Arc::new(Request::default());
        self.queue.lock().unwrap().push(request.clone());
        self.queued.wake();
        poll_fn(|cx| {
            request.answered.register(cx.waker());
            match *request.is_answered.lock().unwrap() {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }

    /// Answers so many requests, as the server does.
    fn serve(&self, mut count: usize) {
        while count > 0 {
            let mut sent = self.sent.lock().unwrap();
            while sent.is_empty() {
                sent = self.is_sent.wait(sent).unwrap();
            }
            let answered = take(&mut *sent);
            drop(sent);
            count -= answered.len();
            self.replies.lock().unwrap().extend(answered);
            self.readable.wake();
        }
    }
}

/// Asks as a link does.
async fn ask(socket: &Socket, side: Side, wire: &Wire) {
    assert!(!socket.has_ended());
    let mut reply = pin!(wire.ask());
    if socket.ask(side, reply.as_mut()).is_none() {
        socket.wait(side, reply).await;
    }
}

/// Explores a caller that is alone beside a task with so many batches. With `leaves`, a caller before it asks, and
/// leaves after its first poll.
fn caller_beside_task(batches: usize, leaves: bool) {
    explore(2_000, move || {
        let wire = Arc::new(Wire::default());
        let moves = wire.clone();
        let bytes = poll_fn(move |cx| moves.move_bytes(cx)).boxed();
        let socket = Arc::new(Socket::new(Some(bytes)));
        let (at_caller, its_socket) = (wire.clone(), socket.clone());
        let caller = thread::spawn(move || {
            if leaves {
                let _ = pin!(ask(&its_socket, Side::Caller, &at_caller)).now_or_never();
            }
            block_on(ask(&its_socket, Side::Caller, &at_caller));
        });
        let at_task = wire.clone();
        let task = thread::spawn(move || {
            for _ in 0..batches {
                block_on(ask(&socket, Side::Task, &at_task));
                socket.task_rests();
            }
        });
        wire.serve(1 + batches + usize::from(leaves));
        caller.join().unwrap();
        task.join().unwrap();
    });
}

#[test]
fn a_caller_gets_its_reply_beside_a_batch() {
    caller_beside_task(1, false);
}

#[test]
fn a_caller_gets_its_reply_beside_batches() {
    caller_beside_task(3, false);
}

#[test]
fn a_caller_that_leaves_keeps_no_reply_from_the_next() {
    caller_beside_task(2, true);
}
