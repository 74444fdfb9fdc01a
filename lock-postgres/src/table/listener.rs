//! The session that receives this client's grants.
//!
//! Its channel has a number that nobody can guess. The session holds an advisory lock that stands for the
//! channel. By that lock a releaser sees that the session still lives before it grants a lock to a waiter of this
//! client. Everyone may see which keys are held, so the key is a hash, which does not reveal the channel.

use std::time::Duration;

use async_trait::async_trait;
use lock_core::backend::NotificationTransport;
use lock_core::{BackendError, BoxError, Outcome};
use parking_lot::Mutex;
use sqlx::postgres::PgListener;
use sqlx::{Error, Executor};
use tokio::time::Instant;

use crate::error::{BACKEND, source};
use crate::server::Server;
use crate::session::{KEEP_ALIVE, listening};

/// Pause after a LISTEN without an answer. Each further one doubles the pause, up to [`LONGEST_PAUSE`].
///
/// LISTEN reads all that is in the server's queue of notifications, and the server cannot cancel it. With a queue of
/// gigabytes it takes longer than a client waits, and clients that tried again at once would keep the server busy.
const PAUSE: Duration = Duration::from_secs(60);
const LONGEST_PAUSE: Duration = Duration::from_secs(16 * 60);

/// Connects the session on which one client listens.
pub(super) struct Listener {
    server: Server,
    rest: Mutex<Rest>,
}

/// The time until which the client polls, and the pause after the next failure.
struct Rest {
    until: Instant,
    next: Duration,
}

/// A LISTEN in progress; dropped before its answer, it begins a pause.
struct Attempt<'a>(Option<&'a Mutex<Rest>>);

impl Attempt<'_> {
    fn answered(mut self) {
        if let Some(rest) = self.0.take() {
            rest.lock().next = PAUSE;
        }
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let Some(rest) = self.0 else { return };
        let mut rest = rest.lock();
        rest.until = Instant::now() + rest.next;
        rest.next = (rest.next * 2).min(LONGEST_PAUSE);
    }
}

#[async_trait]
impl NotificationTransport for Listener {
    type Connection = PgListener;
    /// The number of the channel.
    type Address = i64;

    async fn connect(&self) -> Result<(PgListener, i64), BackendError> {
        if Instant::now() < self.rest.lock().until {
            return Err(silent("a LISTEN had no answer: waiters poll for a while".into()));
        }
        // C28: without a session that listens waiters poll, whatever the reason is. The answers to their requests decide.
        let opened = self.open().await;
        opened.map_err(|error| silent(source(error)))
    }

    async fn recv(&self, session: &mut PgListener) -> Option<String> {
        // The driver reports a gap by returning no message.
        Some(session.try_recv().await.ok()??.payload().to_owned())
    }

    async fn ping(&self, session: &mut PgListener) -> bool {
        session.execute("SELECT 1").await.is_ok()
    }
}

impl Listener {
    pub(super) fn new(server: Server) -> Self {
        Self { server, rest: Mutex::new(Rest { until: Instant::now(), next: PAUSE }) }
    }

    async fn open(&self) -> Result<(PgListener, i64), Error> {
        let mut session = self.server.connections.opener.log_in(listening).await?;
        session.execute(sqlx::raw_sql(KEEP_ALIVE)).await?;
        let number = uuid::Uuid::new_v4().as_u64_pair().0.cast_signed();
        let call = self.server.call("listen").number(number);
        let attempt = Attempt(Some(&self.rest));
        let begun = session.execute(call.as_query()).await;
        if begun.as_ref().map_or_else(|error| error.as_database_error().is_some(), |_| true) {
            attempt.answered();
        }
        begun?;
        Ok((session, number))
    }
}

/// Error of a client without a session that listens.
fn silent(reason: BoxError) -> BackendError {
    BackendError::transient(BACKEND, Outcome::NotApplied, "no session listens", reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r1_each_listen_without_an_answer_doubles_the_pause() {
        let rest = Mutex::new(Rest { until: Instant::now(), next: PAUSE });
        for pause in [1, 2, 4, 8, 16, 16].map(|times| PAUSE * times) {
            let begun = Instant::now();
            drop(Attempt(Some(&rest)));
            assert!(
                rest.lock().until >= begun + pause && rest.lock().until <= Instant::now() + pause
            );
        }
        let until = rest.lock().until;
        Attempt(Some(&rest)).answered();
        assert!(rest.lock().until == until && rest.lock().next == PAUSE);
    }
}
