//! A client of the server that knows nothing of the project's locks.

use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::time::sleep;

use super::Clients;
use crate::client::{Client, Result};

/// Pause between two cycles of the foreign client.
const PAUSE: Duration = Duration::from_millis(1);

/// The foreign client asks for at least this long, also beside a verb that is over sooner.
const AT_LEAST: Duration = Duration::from_millis(500);

/// Duration of a verb, and the worst delay of the foreign client beside it.
pub(super) struct Watched {
    pub(super) took: Duration,
    pub(super) worst: Duration,
    /// The verb's error.
    pub(super) refused: Option<String>,
}

impl Clients {
    /// Runs a verb beside the foreign client.
    pub(super) async fn watch(&self, verb: impl Future<Output = Result<()>>) -> Result<Watched> {
        let (foreign, (ended, end)) = (self.foreign.client(&self.url).await?, oneshot::channel());
        let asking = tokio::spawn(worst_until(end, foreign));
        let start = Instant::now();
        let refused = verb.await.err().map(|error| error.to_string());
        let took = start.elapsed();
        sleep(AT_LEAST.saturating_sub(took)).await;
        // The foreign client has failed if it does not listen; its error follows.
        let _ = ended.send(());
        Ok(Watched { took, worst: asking.await??, refused })
    }
}

/// Returns the longest time that a cycle of two requests took until `end`.
async fn worst_until(
    mut end: oneshot::Receiver<()>,
    mut foreign: Box<dyn Client>,
) -> Result<Duration> {
    let mut worst = Duration::ZERO;
    while end.try_recv() == Err(oneshot::error::TryRecvError::Empty) {
        let asked = Instant::now();
        foreign.acquire("foreign").await?;
        foreign.release("foreign").await?;
        worst = worst.max(asked.elapsed());
        sleep(PAUSE).await;
    }
    Ok(worst)
}
