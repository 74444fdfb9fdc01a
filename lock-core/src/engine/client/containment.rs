//! Keeps a panic in foreign code from ending the tasks of a client.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use futures_util::FutureExt;
use tokio::time::sleep;
use tracing::warn;

use super::retry::pause_after;
use crate::model::BackendError;

/// Asks the backend. A panic becomes an error of this question alone, with an unknown outcome (C15).
pub(crate) async fn contained<T>(
    backend: &'static str,
    question: impl Future<Output = Result<T, BackendError>>,
) -> Result<T, BackendError> {
    let answer = AssertUnwindSafe(question).catch_unwind().await;
    answer.unwrap_or_else(|panic| Err(BackendError::panicked(backend, text_of(&*panic))))
}

/// Calls a metrics recorder and a tracing layer. A panic of one of them loses only its event.
pub(crate) fn tell(backend: &'static str, tell: impl FnOnce()) {
    let _told = attempted(backend, "a metrics recorder or tracing layer", tell);
}

/// Calls foreign code. Returns `None` after a panic, and warns that `what` panicked.
pub(crate) fn attempted<T>(
    backend: &'static str,
    what: &'static str,
    call: impl FnOnce() -> T,
) -> Option<T> {
    let panicked = |panic: Box<dyn Any + Send>| {
        let error = text_of(&*panic);
        // A tracing layer may be the cause.
        let _ = catch_unwind(|| warn!(backend, what, error, "code outside of the client panicked"));
    };
    catch_unwind(AssertUnwindSafe(call)).map_err(panicked).ok()
}

/// Runs a task of a client, and runs it again after a panic.
pub(crate) async fn restarted<F: Future<Output = ()>>(
    backend: &'static str,
    task: &'static str,
    run: impl Fn() -> F,
) {
    let mut panics = 0;
    while let Err(panic) = AssertUnwindSafe(run()).catch_unwind().await {
        let error = text_of(&*panic).to_owned();
        tell(backend, || warn!(backend, task, error, "a task of the client panicked, and goes on"));
        sleep(pause_after(panics)).await;
        panics += 1;
    }
}

/// The message of a panic.
fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}
