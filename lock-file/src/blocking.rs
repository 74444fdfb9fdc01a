//! File operations on blocking threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::thread;

use lock_core::{BackendError, BoxError, Outcome};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::fault::BACKEND;

/// Tells work on another thread if the future that requested it still exists.
#[derive(Debug)]
pub(crate) struct Caller(Weak<()>);

impl Caller {
    /// Fails if the future was dropped.
    ///
    /// C19: work that checks this inside its critical section happens before the caller's next step, or never.
    pub(crate) fn check(&self) -> Result<(), BackendError> {
        if self.0.strong_count() > 0 {
            return Ok(());
        }
        let (context, source) = ("the request was given up", "nobody waits for the answer");
        Err(BackendError::transient(BACKEND, Outcome::NotApplied, context, source))
    }
}

/// Runs `work` on a blocking thread.
pub(crate) async fn blocking<T, E>(
    work: impl FnOnce(&Caller) -> Result<T, E> + Send + 'static,
) -> Result<T, E>
where
    T: Send + 'static,
    E: From<BackendError> + Send + 'static,
{
    let here = Arc::new(());
    let caller = Caller(Arc::downgrade(&here));
    let done = start(move || work(&caller))?.await;
    drop(here);
    done.unwrap_or_else(|stopped| Err(not_done("the runtime is shutting down", stopped).into()))
}

/// Starts `work` on its own thread, and returns the future of its end. A runtime or a process that ends does not wait for
/// the work.
pub(crate) fn in_background(work: impl FnOnce() + Send + 'static) -> Option<oneshot::Receiver<()>> {
    let (done, ended) = oneshot::channel();
    let work = move || {
        work();
        drop(done);
    };
    // If the system gives no thread, later work of the kind has another chance.
    thread::Builder::new().name("leasehold-sweep".into()).spawn(work).ok().map(|_| ended)
}

/// Starts `work` on a blocking thread.
fn start<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, BackendError> {
    // Tokio panics if the system gives it no thread. This is temporary. Tokio keeps the work in its queue, and may
    // still run it later.
    let started = catch_unwind(AssertUnwindSafe(|| spawn_blocking(work)));
    let refused = |_| not_done("no thread is available", "the system refused to start one");
    started.map_err(refused)
}

/// Runs `work` on its own thread, which ends with it.
pub(crate) async fn on_own_thread<T: Send + 'static>(
    work: impl FnOnce(&Caller) -> Result<T, BackendError> + Send + 'static,
) -> Result<T, BackendError> {
    let here = Arc::new(());
    let caller = Caller(Arc::downgrade(&here));
    let (answer, answered) = oneshot::channel();
    let work = move || drop(answer.send(work(&caller)));
    let started = thread::Builder::new().name("leasehold-renew".into()).spawn(work);
    started.map_err(|refused| not_done("no thread is available", refused))?;
    let answered = answered.await;
    drop(here);
    answered.unwrap_or_else(|stopped| Err(not_done("the renewal stopped", stopped)))
}

fn not_done(context: &str, source: impl Into<BoxError>) -> BackendError {
    BackendError::transient(BACKEND, Outcome::Unknown, context, source)
}
