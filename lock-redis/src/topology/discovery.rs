//! Finds the servers of a client: any of several can tell.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::stream::{FuturesUnordered, StreamExt};
use lock_core::BackendError;
use redis::{Client, Cmd, Value};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::protocol::error::{classify, no_server};
use crate::wire::connection::Connection;
use crate::wire::link::Role;

/// One server is waited for this long before the next is asked too.
const PATIENCE: Duration = Duration::from_millis(50);

/// Least time between two looks at the servers.
const PAUSE: Duration = Duration::from_millis(100);

/// Asks one after the other, those beside that are slow to answer, until one answers. If none does, a refusal tells
/// more than silence.
pub(crate) async fn first_answer<T>(
    questions: Vec<impl Future<Output = Result<T, BackendError>>>,
) -> Result<T, BackendError> {
    let (mut questions, mut error) = (questions.into_iter(), None);
    let mut asked = FuturesUnordered::new();
    loop {
        asked.extend(questions.next());
        if asked.is_empty() {
            let none = || no_server("no server can be asked for the others", "none is known");
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

/// Asks a server over a connection of its own, which is closed again. So a server that takes no locks costs no
/// connection, and one that is silent spoils none.
pub(crate) async fn ask_once(client: Client, command: Cmd) -> Result<Value, BackendError> {
    Connection::new(client, Role::Any).send(command).await.map_err(classify)
}

/// The task that looks at the servers anew, if there is one. It ends with the value.
#[derive(Default)]
pub(crate) struct Lookout {
    task: Mutex<Option<(Instant, AbortHandle)>>,
}

impl Lookout {
    /// Begins to look, unless that is under way or was begun just now. Requests need not wait for it: they are
    /// asked again (C15). It goes on when they leave: a look that takes longer than they stay would never end.
    pub(crate) fn look(&self, look: impl Future<Output = ()> + Send + 'static) {
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        let is_busy =
            |(begun, task): &(Instant, AbortHandle)| !task.is_finished() || begun.elapsed() < PAUSE;
        if !task.as_ref().is_some_and(is_busy) {
            *task = Some((Instant::now(), tokio::spawn(look).abort_handle()));
        }
    }
}

impl Drop for Lookout {
    fn drop(&mut self) {
        let task = self.task.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, task)) = task {
            task.abort();
        }
    }
}
