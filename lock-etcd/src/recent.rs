//! One request for all who ask at about the same time.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt, Shared};
use tokio::time::Instant;

/// For so long after a request was made its answer serves others.
const RECENT: Duration = Duration::from_millis(100);

/// The answer to a request that many ask for at once: whoever comes soon after the first shares it.
pub(crate) struct Recent<T: Clone>(Mutex<Option<(Instant, Shared<BoxFuture<'static, T>>)>>);

impl<T: Clone> Default for Recent<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T: Clone> Recent<T> {
    /// The answer of a recent request, or of a new one.
    pub(crate) fn get(
        &self,
        ask: impl FnOnce() -> BoxFuture<'static, T>,
    ) -> Shared<BoxFuture<'static, T>> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((at, answer)) if at.elapsed() < RECENT => answer.clone(),
            _ => {
                let answer = ask().shared();
                *last = Some((Instant::now(), answer.clone()));
                answer
            }
        }
    }
}
