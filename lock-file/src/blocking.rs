//! File operations, off the threads that run futures.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use lock_core::{BackendError, BoxError, Outcome};
use tokio::task::spawn_blocking;

use crate::fault::BACKEND;

/// Tells work in the background whether the future that asked for it is still there.
#[derive(Debug)]
pub(crate) struct Asker(Weak<()>);

impl Asker {
    /// Refuses to go on for nobody.
    ///
    /// Asked inside the critical section, it leaves no ghosts: what a caller gave up happened
    /// before everything it does next, or never.
    pub(crate) fn check(&self) -> Result<(), BackendError> {
        if self.0.strong_count() > 0 {
            return Ok(());
        }
        let (context, source) = ("the request was given up", "nobody waits for the answer");
        Err(BackendError::transient(BACKEND, Outcome::NotApplied, context, source))
    }
}

/// Does `work` on a thread that may block.
pub(crate) async fn blocking<T, E>(
    work: impl FnOnce(&Asker) -> Result<T, E> + Send + 'static,
) -> Result<T, E>
where
    T: Send + 'static,
    E: From<BackendError> + Send + 'static,
{
    let here = Arc::new(());
    let asker = Asker(Arc::downgrade(&here));
    // Tokio panics if the system gives it no thread, which passes; what was asked may still be done
    // when it gives one.
    let started = catch_unwind(AssertUnwindSafe(|| spawn_blocking(move || work(&asker))));
    let Ok(started) = started else {
        return Err(not_done("no thread can be had", "the system refused to start one").into());
    };
    let done = started.await;
    drop(here);
    done.unwrap_or_else(|stopped| Err(not_done("the runtime is shutting down", stopped).into()))
}

fn not_done(context: &str, source: impl Into<BoxError>) -> BackendError {
    BackendError::transient(BACKEND, Outcome::Unknown, context, source)
}
