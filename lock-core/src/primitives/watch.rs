//! Streams of the states of locks (C44).

use std::pin::Pin;
use std::time::Duration;

use futures_util::future::FutureExt;
use futures_util::stream::{self, Stream};

use super::looks::Looks;
use crate::admin::Admin;
use crate::model::{BackendError, LockError, LockName, LockState};

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

    /// Watches the locks that are held and whose names start with `prefix`: a stream of the results of
    /// [`list`](Self::list), at once and after each change.
    ///
    /// No store signals the changes of many locks, so this polls by a listing each time: it is for people, not for
    /// programs.
    pub fn watch_list(&self, prefix: impl AsRef<str>, limit: usize) -> ListWatch {
        let (admin, prefix) = (self.clone(), prefix.as_ref().to_owned());
        ListWatch { admin, prefix, limit, looks: Looks::new() }
    }
}

/// A stream of the states of a lock: at once, and after each change.
///
/// A change is a grant, a release, an eviction, an expiry, or one waiter more or less. Passing time and a renewal are
/// no changes. States that come and go between two looks are not shown; the last state always is.
///
/// # Delay
/// If the store signals changes, they are shown at once, at most a hundred times a second. Stores that do are the
/// memory backend, etcd, and a Redis with keyspace events. Other stores are polled each second, or as often as set by
/// [`poll_every`](Self::poll_every). Such a look also finds changes without a signal, such as an expiry in memory.
///
/// A hold that [passes](crate::ClientOptions::local_hand_off) between tasks of one client is shown with the token and
/// the label of the first of these tasks.
///
/// # Errors
/// The stream waits through an outage, and reports it to [`on_outage`](Self::on_outage). A lasting error is an item
/// of the stream, and the stream may be polled again after it.
///
/// The stream keeps the client alive, as a clone does. No task runs for it: an observer that does not ask for the
/// next item costs the store nothing.
#[derive(Debug)]
#[must_use = "a watch does nothing until it is asked"]
pub struct LockWatch {
    admin: Admin,
    name: String,
    looks: Looks<LockState>,
    /// True once the backend was asked for signals of changes.
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
    /// - [`LockError::Closed`] after a [shutdown](crate::LockClient::shutdown) of the client.
    ///
    /// # Cancel safety
    /// Dropping the future loses no change: the next call goes on with the look, and shows the change.
    pub async fn next(&mut self) -> Result<LockState, LockError> {
        let name = LockName::new(&self.name).ok();
        self.admin.refuse_in_fork(name.as_ref())?;
        if !std::mem::replace(&mut self.listens, true)
            && let Some(name) = name
        {
            self.looks.listen(self.admin.backend().and_then(|admin| admin.changes(&name)));
        }
        loop {
            let (admin, name) = (self.admin.clone(), self.name.clone());
            let look = || async move { admin.inspect(&name).await }.boxed();
            let seen = tokio::select! {
                biased;
                () = self.admin.closed() => {
                    Err(LockError::Closed { name: LockName::new(&self.name)? })
                }
                seen = self.looks.look(look) => seen,
            };
            if let Some(news) = self.looks.answered(seen, LockState::differs_from) {
                return news;
            }
        }
    }

    /// Returns the same as a [`Stream`], which ends with the error of a shutdown of the client.
    pub fn into_stream(self) -> Pin<Box<dyn Stream<Item = Result<LockState, LockError>> + Send>> {
        Box::pin(stream::unfold(Some(self), async |watch| {
            let mut watch = watch?;
            let item = watch.next().await;
            let goes_on = !matches!(item, Err(LockError::Closed { .. }));
            Some((item, goes_on.then_some(watch)))
        }))
    }
}

/// Pause after a listing, as a multiple of its duration.
const PAUSE_AFTER_LISTING: u32 = 4;

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
    /// Sets the interval of listings of the locks; default 1 s, from 10 ms to a day. A slow listing is followed by a
    /// pause of four times its duration at least.
    pub fn poll_every(self, span: Duration) -> Self {
        Self { looks: self.looks.poll_every(span), ..self }
    }

    /// Calls `listener` once for each outage of the server, while [`next`](Self::next) waits for its end. It must not
    /// block. If only some of several servers are away, the listener receives the locks of the others:
    /// [`LockError::Incomplete`].
    pub fn on_outage(self, listener: impl Fn(&LockError) + Send + Sync + 'static) -> Self {
        Self { looks: self.looks.on_outage(listener), ..self }
    }

    /// Waits for the next listing: at once the first time, then for a change.
    ///
    /// # Errors
    /// [`LockError::Backend`] if the server refuses, and after a [shutdown](crate::LockClient::shutdown) of the client.
    /// While the server cannot be reached, this waits.
    ///
    /// # Cancel safety
    /// Dropping the future loses no change: the next call goes on with the look, and shows the change.
    pub async fn next(&mut self) -> Result<Vec<LockState>, LockError> {
        self.admin.refuse_in_fork(None)?;
        loop {
            let (admin, prefix, limit) = (self.admin.clone(), self.prefix.clone(), self.limit);
            let look = || async move { admin.list(&prefix, limit).await }.boxed();
            let seen = tokio::select! {
                biased;
                () = self.admin.closed() => Err(shut_down(&self.admin)),
                seen = self.looks.look(look) => seen,
            };
            let news = self.looks.answered(seen, |seen, shown| differ(seen, shown));
            // A store with many names is not read all the time.
            self.looks.rest(PAUSE_AFTER_LISTING);
            if let Some(news) = news {
                return news;
            }
        }
    }
}

fn shut_down(admin: &Admin) -> LockError {
    let refusal = BackendError::refusal(admin.name(), "the client was shut down");
    LockError::backend("list locks", None, refusal)
}

fn differ(seen: &[LockState], shown: &[LockState]) -> bool {
    let pairs = || seen.iter().zip(shown);
    seen.len() != shown.len() || pairs().any(|(seen, shown)| seen.differs_from(shown))
}
