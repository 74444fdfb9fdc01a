//! Streams of what locks look like (C44).

use std::pin::Pin;
use std::time::Duration;

use futures_util::stream::{self, Stream};

use super::looks::Looks;
use crate::admin::Admin;
use crate::model::{LockError, LockName, LockState};

impl Admin {
    /// Watches a lock: a stream of its [`LockState`], at once and after each change (C44).
    ///
    /// Nothing is sent, and nothing is checked, before the first [`next`](LockWatch::next).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
    /// # use lock_core::{LockClient, MemoryBackend};
    /// # let locks = LockClient::new(MemoryBackend::new());
    /// let mut watch = locks.admin().watch("nightly");
    /// assert!(watch.next().await?.holder().is_none());
    /// let guard = locks.acquire("nightly").await?;
    /// let seen = watch.next().await?;
    /// assert_eq!(seen.holder().and_then(|holder| holder.token), Some(guard.token()));
    /// # Ok(()) }
    /// ```
    pub fn watch(&self, name: impl AsRef<str>) -> LockWatch {
        let (admin, name) = (self.clone(), name.as_ref().to_owned());
        LockWatch { admin, name, looks: Looks::new(), listens: false }
    }

    /// Watches the locks that are held and whose names start with `prefix`: a stream of what
    /// [`list`](Self::list) answers, at once and after each change.
    ///
    /// No store tells of the changes of many locks, so it is polled, each time by a listing: it is for
    /// people, not for programs.
    pub fn watch_list(&self, prefix: impl AsRef<str>, limit: usize) -> ListWatch {
        let (admin, prefix) = (self.clone(), prefix.as_ref().to_owned());
        ListWatch { admin, prefix, limit, looks: Looks::new() }
    }
}

/// A stream of what a lock looks like: at once, and after each change.
///
/// A change is all that is not time going by: a grant, a release, an eviction, the end of a TTL, one waiter
/// more or less. A renewal is no change. What comes and goes between two looks is not shown, and what is
/// there in the end always is.
///
/// # How soon
/// Where the store tells of changes, which is so in memory, on etcd, and on a Redis with keyspace events on, at
/// once: at most a hundred times a second. Elsewhere by a look each second, or as often as [`poll_every`](Self::poll_every) says. Such a look
/// also finds what was not told, as in memory the end of a TTL.
///
/// A hold that [passes](crate::ClientOptions::local_hand_off) from task to task of one client is shown with
/// the token and the label of the first of these tasks.
///
/// # Errors
/// An outage is waited out: [`on_outage`](Self::on_outage) tells of it. What will not pass by itself is an
/// error, and the stream may be asked again after it.
///
/// It keeps the client alive, as a clone does, and no task runs for it: who does not ask for the next item
/// costs the store nothing.
#[derive(Debug)]
#[must_use = "a watch does nothing until it is asked"]
pub struct LockWatch {
    admin: Admin,
    name: String,
    looks: Looks<LockState>,
    /// Set once the backend was asked to tell of changes.
    listens: bool,
}

impl LockWatch {
    /// Sets the interval of looks at the lock without news of a change; default 1 s, from 10 ms to a day.
    pub fn poll_every(self, span: Duration) -> Self {
        Self { looks: self.looks.poll_every(span), ..self }
    }

    /// Calls `listener` once for each outage of the server, while [`next`](Self::next) waits for its end. It
    /// must not block.
    pub fn on_outage(self, listener: impl Fn(&LockError) + Send + Sync + 'static) -> Self {
        Self { looks: self.looks.on_outage(listener), ..self }
    }

    /// Waits for the next state: at once the first time, then for a change.
    ///
    /// # Errors
    /// - [`LockError::Invalid`]: nothing was sent.
    /// - [`LockError::NotALock`] if the store has something else under the lock's name.
    /// - [`LockError::Backend`] if the server refuses. While it cannot be reached, this waits.
    ///
    /// # Cancel safety
    /// Dropping the future loses no change: the next call shows it.
    pub async fn next(&mut self) -> Result<LockState, LockError> {
        if !std::mem::replace(&mut self.listens, true)
            && let Ok(name) = LockName::new(&self.name)
        {
            self.looks.listen(self.admin.backend().and_then(|admin| admin.changes(&name)));
        }
        loop {
            self.looks.until_due().await;
            let seen = self.admin.inspect(&self.name).await;
            if let Some(news) = self.looks.answered(seen, LockState::differs_from) {
                return news;
            }
        }
    }

    /// The same as a [`Stream`], which never ends.
    pub fn into_stream(self) -> Pin<Box<dyn Stream<Item = Result<LockState, LockError>> + Send>> {
        Box::pin(stream::unfold(self, async |mut watch| Some((watch.next().await, watch))))
    }
}

/// A stream of the locks that are held, by [`Admin::watch_list`].
#[derive(Debug)]
#[must_use = "a watch does nothing until it is asked"]
pub struct ListWatch {
    admin: Admin,
    prefix: String,
    limit: usize,
    looks: Looks<Vec<LockState>>,
}

impl ListWatch {
    /// Sets the interval of listings of the locks; default 1 s, from 10 ms to a day.
    pub fn poll_every(self, span: Duration) -> Self {
        Self { looks: self.looks.poll_every(span), ..self }
    }

    /// Calls `listener` once for each outage of the server, while [`next`](Self::next) waits for its end. It
    /// must not block. Where some of several servers are away, it is told the locks of the others:
    /// [`LockError::Incomplete`].
    pub fn on_outage(self, listener: impl Fn(&LockError) + Send + Sync + 'static) -> Self {
        Self { looks: self.looks.on_outage(listener), ..self }
    }

    /// Waits for the next listing: at once the first time, then for a change.
    ///
    /// # Errors
    /// [`LockError::Backend`] if the server refuses. While it cannot be reached, this waits.
    ///
    /// # Cancel safety
    /// Dropping the future loses no change: the next call shows it.
    pub async fn next(&mut self) -> Result<Vec<LockState>, LockError> {
        loop {
            self.looks.until_due().await;
            let seen = self.admin.list(&self.prefix, self.limit).await;
            if let Some(news) = self.looks.answered(seen, |seen, shown| differ(seen, shown)) {
                return news;
            }
        }
    }
}

fn differ(seen: &[LockState], shown: &[LockState]) -> bool {
    let pairs = || seen.iter().zip(shown);
    seen.len() != shown.len() || pairs().any(|(seen, shown)| seen.differs_from(shown))
}
