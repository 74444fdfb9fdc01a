//! Finds the servers of a client: any of several can answer.

use std::time::{Duration, Instant};

use futures_util::stream::{FuturesUnordered, StreamExt};
use lock_core::BackendError;
use parking_lot::Mutex;
use redis::{Cmd, Value};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::protocol::error::{classify, no_server};
use crate::wire::connection::Connection;
use crate::wire::link::Role;
use crate::wire::opening::Opener;

/// Time for one server to answer before the next is asked too.
const PATIENCE: Duration = Duration::from_millis(50);

/// Least time between two looks at the servers.
const PAUSE: Duration = Duration::from_millis(100);

/// Asks one server after the other, and does not wait for slow ones, until one answers. If none does, a refusal is a
/// better error than silence.
pub(crate) async fn first_answer<T>(
    questions: Vec<impl Future<Output = Result<T, BackendError>>>,
) -> Result<T, BackendError> {
    let (mut questions, mut error) = (questions.into_iter(), None);
    let mut asked = FuturesUnordered::new();
    loop {
        asked.extend(questions.next());
        if asked.is_empty() {
            let none =
                || no_server("no server answers with the list of the others", "none is known");
            return Err(error.unwrap_or_else(none));
        }
        match timeout(PATIENCE, asked.next()).await {
            Ok(Some(Ok(answer))) => return Ok(answer),
            Ok(Some(Err(failed))) if error.is_none() || !failed.is_transient() => {
                error = Some(failed);
            }
            Ok(Some(Err(_)) | None) | Err(_) => {}
        }
    }
}

/// Asks a server over a separate connection, which is then closed. So a server without locks costs no lasting
/// connection, and a silent one blocks none.
pub(crate) async fn ask_once(opener: Opener, command: Cmd) -> Result<Value, BackendError> {
    Connection::new(opener, Role::Any).send(command).await.map_err(classify)
}

/// The task that asks for the servers again, if there is one. It ends with this value.
#[derive(Default)]
pub(crate) struct Lookout {
    task: Mutex<Option<(Instant, AbortHandle)>>,
}

impl Lookout {
    /// Begins to look, unless a look is in progress or began just now. Requests need not wait for it: they are
    /// repeated (C15). It continues when they leave: otherwise a look that takes longer than their stay would never
    /// end.
    pub(crate) fn look(&self, look: impl Future<Output = ()> + Send + 'static) {
        let mut task = self.task.lock();
        let is_busy =
            |(begun, task): &(Instant, AbortHandle)| !task.is_finished() || begun.elapsed() < PAUSE;
        if !task.as_ref().is_some_and(is_busy) {
            *task = Some((Instant::now(), tokio::spawn(look).abort_handle()));
        }
    }
}

impl Drop for Lookout {
    fn drop(&mut self) {
        let task = self.task.get_mut();
        if let Some((_, task)) = task {
            task.abort();
        }
    }
}
