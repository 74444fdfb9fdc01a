//! One request for all tasks that ask for the same at the same time.

use std::time::{Duration, Instant};

use futures_util::future::{BoxFuture, FutureExt, Shared, WeakShared};
use parking_lot::Mutex;

/// Time after the sending in which a request serves all callers. A request that is older may never have an answer, so
/// a later caller sends another.
const SHARED_FOR: Duration = Duration::from_millis(500);

/// A request of one sort while it is in flight. The callers that wait for its answer drive it; it ends with the last
/// of them.
pub(crate) struct InFlight<T: Clone>(Mutex<Option<Sent<T>>>);

type Sent<T> = (Instant, WeakShared<BoxFuture<'static, T>>);

impl<T: Clone> Default for InFlight<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> InFlight<T> {
    /// Returns the answer to the request in flight, or to a new one.
    pub(crate) fn join(
        &self,
        send: impl FnOnce() -> BoxFuture<'static, T>,
    ) -> Shared<BoxFuture<'static, T>> {
        let mut slot = self.0.lock();
        let fresh = slot.as_ref().filter(|(sent, _)| sent.elapsed() < SHARED_FOR);
        // An answer that has already come may be older than this question.
        let in_flight = fresh.and_then(|(_, request)| request.upgrade());
        if let Some(request) = in_flight.filter(|request| request.peek().is_none()) {
            return request;
        }
        let request = send().shared();
        *slot = request.downgrade().map(|request| (Instant::now(), request));
        request
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn c12_who_asks_while_a_request_is_in_flight_shares_its_answer() {
        let (in_flight, answers) = (InFlight::default(), Arc::new(Semaphore::new(0)));
        let sent = Arc::new(AtomicU32::new(0));
        let ask = || {
            in_flight.join(|| {
                let (sent, answers) = (sent.clone(), answers.clone());
                async move {
                    let number = sent.fetch_add(1, Ordering::Relaxed);
                    answers.acquire().await.expect("open").forget();
                    number
                }
                .boxed()
            })
        };
        let (one, other) = (ask(), ask());
        answers.add_permits(1);
        assert_eq!((one.clone().await, other.await), (0, 0));
        let later = ask();
        answers.add_permits(1);
        assert_eq!(later.await, 1, "an answer from before the question");
        drop(one);
        // A request that all callers have left is not waited for.
        drop(ask());
        answers.add_permits(1);
        assert_eq!(ask().await, 2);
    }
}
