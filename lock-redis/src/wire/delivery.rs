//! Delivers the answers of many callers at the same moment.
//!
//! A Tokio thread that wakes a second task also wakes another thread to run it. If threads and server share the
//! cores, that other thread comes at once, runs this one task, finds no more, and sleeps again. So for twenty callers
//! that are woken one by one, it would be woken twenty times.
//!
//! While a thread looks for events, it wakes no other thread; afterwards it does so once for all tasks. So the
//! answers wait for that moment, as a yielding task does.

use std::mem::take;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use futures_util::future::{BoxFuture, FutureExt};
use parking_lot::{Mutex, MutexGuard};
use redis::{RedisError, Value};
use tokio::sync::oneshot;
use tokio::task::yield_now;

pub(crate) type Reply = Result<Value, RedisError>;

/// An answer, and the channel of its caller.
pub(crate) type ReplyTo = (oneshot::Sender<Reply>, Reply);

/// Delivers answers as soon as the thread has no more ready tasks.
#[derive(Default)]
pub(crate) struct Delivery {
    untold: Arc<Untold>,
    /// Kept, but not awaited: a dropped future need not wake anybody.
    moment: Option<BoxFuture<'static, ()>>,
}

impl Delivery {
    pub(crate) fn deliver(&mut self, answers: Vec<ReplyTo>) {
        if answers.len() < 2 {
            return tell(answers);
        }
        let is_first = self.untold.add(answers);
        if is_first {
            let waker = Waker::from(self.untold.clone());
            let moment = self.moment.insert(yield_now().boxed());
            let _ = moment.poll_unpin(&mut Context::from_waker(&waker));
        }
    }
}

/// A waker that delivers the answers: it is called at the moment.
#[derive(Default)]
struct Untold(Mutex<Vec<ReplyTo>>);

impl Untold {
    /// Adds answers; returns true if there were none before.
    fn add(&self, mut answers: Vec<ReplyTo>) -> bool {
        let mut untold = self.answers();
        let is_first = untold.is_empty();
        untold.append(&mut answers);
        is_first
    }

    fn answers(&self) -> MutexGuard<'_, Vec<ReplyTo>> {
        self.0.lock()
    }
}

impl Wake for Untold {
    fn wake(self: Arc<Self>) {
        let answers = take(&mut *self.answers());
        tell(answers);
    }
}

fn tell(answers: Vec<ReplyTo>) {
    for (caller, reply) in answers {
        // The caller may have left.
        let _ = caller.send(reply);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Caller = oneshot::Receiver<Reply>;

    fn answers<const N: usize>() -> (Vec<ReplyTo>, [Caller; N]) {
        let mut answers = Vec::new();
        let callers = std::array::from_fn(|_| {
            let (sender, caller) = oneshot::channel();
            answers.push((sender, Ok(Value::Okay)));
            caller
        });
        (answers, callers)
    }

    fn is_told(caller: &mut Caller) -> bool {
        caller.try_recv().is_ok()
    }

    #[tokio::test]
    async fn what_comes_before_the_moment_is_told_at_the_moment() {
        let mut delivery = Delivery::default();
        let ((first, mut callers), (more, mut others)) = (answers::<2>(), answers::<3>());
        delivery.deliver(first);
        delivery.deliver(more);
        assert!(!callers.iter_mut().chain(&mut others).any(is_told));
        yield_now().await;
        assert!(callers.iter_mut().chain(&mut others).all(is_told));
    }

    #[tokio::test]
    async fn each_delivery_has_its_moment() {
        let mut delivery = Delivery::default();
        for _ in 0..2 {
            let (answers, mut callers) = answers::<2>();
            delivery.deliver(answers);
            yield_now().await;
            assert!(callers.iter_mut().all(is_told));
        }
    }

    #[tokio::test]
    async fn one_that_is_alone_does_not_wait() {
        let (answers, mut callers) = answers::<1>();
        Delivery::default().deliver(answers);
        assert!(is_told(&mut callers[0]));
    }

    /// Without a runtime there is no moment to wait for.
    #[test]
    fn outside_a_runtime_all_are_told_at_once() {
        let (answers, mut callers) = answers::<2>();
        Delivery::default().deliver(answers);
        assert!(callers.iter_mut().all(is_told));
    }
}
