//! Times of the looks at something that may have changed, and the detection of a change.

use std::fmt;
use std::future::pending;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use tokio::runtime::{Handle, Id};
use tokio::time::{Instant, sleep_until};

use crate::backend::Changes;
use crate::model::{Listener, LockError};

/// Interval of looks without news of a change.
pub(super) const DEFAULT_POLL: Duration = Duration::from_secs(1);

/// Pause between two looks, however often something changes, so that an observer of a busy lock costs the store at
/// most a hundred looks a second.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);

/// Longest poll interval. A longer span means never.
const LONGEST_POLL: Duration = Duration::from_secs(24 * 60 * 60);

/// Looks at one thing again and again (C44): after a signal of a change, and when the poll is due.
///
/// ```text
///                      told of a change, or the poll is due
///   shown, waiting ─────────────────────────────────────────▶ looking
///        ▲  ▲                                                  │   │
///        │  └──────────── as before, or no answer ─────────────┘   │
///        └───────────────────────── changed ───────────────────────┘
/// ```
pub(super) struct Looks<T> {
    poll: Duration,
    /// The time of the next look, and the earliest time of a look after a change.
    due: Instant,
    earliest: Instant,
    changes: Option<Changes>,
    look: Option<Look<T>>,
    /// Duration of the last look.
    took: Duration,
    /// The last item shown.
    shown: Option<T>,
    outage: Outage,
}

/// A look in flight.
struct Look<T> {
    /// The runtime whose timers and connections it may use.
    runtime: Option<Id>,
    begun: Instant,
    /// In a mutex only to be `Sync`; it is never locked.
    answer: Mutex<BoxFuture<'static, Result<T, LockError>>>,
}

/// Reports an outage of the server.
#[derive(Default)]
struct Outage {
    listener: Listener<LockError>,
    is_told: bool,
}

impl<T: Clone> Looks<T> {
    /// Looks at once, then by the poll alone.
    pub(super) fn new() -> Self {
        let (due, earliest) = (Instant::now(), Instant::now());
        let (changes, look, took, shown, outage) = Default::default();
        Self { poll: DEFAULT_POLL, due, earliest, changes, look, took, shown, outage }
    }

    pub(super) fn poll_every(self, span: Duration) -> Self {
        Self { poll: span.clamp(SHORTEST_PAUSE, LONGEST_POLL), ..self }
    }

    pub(super) fn on_outage(self, listener: impl Fn(&LockError) + Send + Sync + 'static) -> Self {
        let outage = Outage { listener: Listener::new(listener), is_told: false };
        Self { outage, ..self }
    }

    /// Listens to signals of changes from now on.
    pub(super) fn listen(&mut self, changes: Option<Changes>) {
        self.changes = changes;
    }

    /// Takes the answer of a look, and returns the item that the stream shows; `None` if nothing is new.
    pub(super) fn answered(
        &mut self,
        seen: Result<T, LockError>,
        differ: impl Fn(&T, &T) -> bool,
    ) -> Option<Result<T, LockError>> {
        // The pause begins at the answer: a caller that dropped the future before has not looked.
        let now = Instant::now();
        (self.due, self.earliest) = (now + self.poll, now + SHORTEST_PAUSE);
        match seen {
            Err(error) if error.is_transient() => self.outage.tell(&error),
            Err(error) => return Some(Err(error)),
            Ok(seen) => {
                self.outage.is_told = false;
                if self.shown.as_ref().is_none_or(|shown| differ(&seen, shown)) {
                    self.shown = Some(seen.clone());
                    return Some(Ok(seen));
                }
            }
        }
        None
    }

    /// Begins a look when it is due, and returns its answer.
    ///
    /// # Cancel safety
    /// If the future is dropped, the look goes on with the next call. A caller that always drops the future before the
    /// answer would otherwise never see one.
    pub(super) async fn look(
        &mut self,
        begin: impl FnOnce() -> BoxFuture<'static, Result<T, LockError>>,
    ) -> Result<T, LockError> {
        let runtime = Handle::try_current().ok().map(|runtime| runtime.id());
        self.look.take_if(|look| look.runtime != runtime);
        if self.look.is_none() {
            self.until_due().await;
        }
        let look = || Look { runtime, begun: Instant::now(), answer: Mutex::new(begin()) };
        let look = self.look.get_or_insert_with(look);
        let seen = look.answer.get_mut().unwrap_or_else(PoisonError::into_inner).await;
        self.took = look.begun.elapsed();
        self.look = None;
        seen
    }

    /// Delays the next look by the poll until `times` the duration of the last look has passed.
    pub(super) fn rest(&mut self, times: u32) {
        self.due = self.due.max(Instant::now() + self.took * times);
    }

    /// Returns when it is time to look: at once the first time. C28: a change without a signal costs one poll at
    /// most.
    ///
    /// # Cancel safety
    /// Dropping the future loses no change: the signal stays until a look is answered.
    async fn until_due(&mut self) {
        loop {
            tokio::select! {
                biased;
                () = sleep_until(self.due) => return,
                told = told(&mut self.changes) => match told {
                    Some(()) => self.due = self.due.min(self.earliest),
                    None => self.changes = None,
                }
            }
        }
    }
}

/// Waits for a signal of a change; `None` if no more signals will come.
async fn told(changes: &mut Option<Changes>) -> Option<()> {
    match changes {
        Some(changes) => changes.next().await,
        None => pending().await,
    }
}

impl Outage {
    /// Reports each outage once.
    fn tell(&mut self, error: &LockError) {
        if !std::mem::replace(&mut self.is_told, true) {
            tracing::warn!(%error, "cannot look for changes now; still watching");
            self.listener.tell(error);
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Looks<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Looks")
            .field("poll", &self.poll)
            .field("shown", &self.shown)
            .finish_non_exhaustive()
    }
}
