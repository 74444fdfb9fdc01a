//! The questions of operators to a backend.

use std::pin::Pin;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::{self, Stream};

use crate::model::{BackendError, Finding, Holder, LockName, LockState, Whom};

/// Signals that a lock may have changed. The observer looks at the lock after each signal, so several changes may be
/// one signal.
///
/// A stream that has ended signals nothing more.
pub type Changes = Pin<Box<dyn Stream<Item = ()> + Send>>;

/// The pages of a listing. Their locks are sorted by name, and no lock is on two pages. After an error there is no page.
pub type Pages<'a> = Pin<Box<dyn Stream<Item = Result<Vec<LockState>, BackendError>> + Send + 'a>>;

/// Looks at the locks of a backend from outside, and ends holds by force.
///
/// Applications and operators ask a [`LockClient`](crate::LockClient), which bounds the time.
#[async_trait]
pub trait LockAdmin: Send + Sync {
    /// Looks at a lock without touching it.
    ///
    /// # Errors
    /// [`BackendError`] if the server did not answer.
    async fn inspect(&self, name: &LockName) -> Result<LockState, BackendError>;

    /// Signals the changes of a lock (C44): grants, releases and evictions, and also waiters and expiries where the
    /// store reports them. `None`, the default, if the store sends no signals to observers. Observers look once a
    /// second in any case, so a backend need not know if the signals of its server are turned on.
    ///
    /// The stream reports no change that happens before it is connected. It signals once when it is connected, and
    /// again each time it may have missed a change. It is polled only while somebody watches, and must be cheap to
    /// keep and to drop.
    fn changes(&self, name: &LockName) -> Option<Changes> {
        let _ = name;
        None
    }

    /// Lists the locks that are held and whose names start with `prefix`, sorted by name, at most
    /// `limit` of them.
    ///
    /// # Errors
    /// [`BackendError`] if the server did not answer; an [incomplete](BackendError::incomplete) listing if only some
    /// of several servers answered.
    async fn list(&self, prefix: &str, limit: usize) -> Result<Vec<LockState>, BackendError>;

    /// Lists the same, and answers within `time` if that is not too short for one request: with an
    /// [incomplete](BackendError::incomplete) listing if the store has more names than it looks at in that time. By
    /// default it is [`list`](Self::list), without such a limit.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    async fn list_within(
        &self,
        prefix: &str,
        limit: usize,
        time: Duration,
    ) -> Result<Vec<LockState>, BackendError> {
        let _ = time;
        self.list(prefix, limit).await
    }

    /// Lists the same in pages, for a store with more locks than fit into memory or into the time of one answer. A page
    /// may be empty. By default it is one page, the [`list`](Self::list).
    ///
    /// # Errors
    /// As [`list`](Self::list): an item of the stream. An incomplete listing ends with such an error, which has no locks.
    fn pages(&self, prefix: String, limit: usize) -> Pages<'_> {
        Box::pin(stream::once(async move { self.list(&prefix, limit).await }))
    }

    /// Ends the holds of `whom` and grants the lock to the waiters that fit then. Returns the former holders in the
    /// order of their grants; none if nobody of `whom` held the lock. With [`Whom::All`] a foreign holder is ended
    /// too. Each tells the [last token](Holder::reserved) that was reserved for it (C46).
    ///
    /// The holder is not asked: it learns of its loss from its next renewal or its watch. A repeated call may end the
    /// hold of the next holder.
    ///
    /// # Errors
    /// [`BackendError`] if the server did not answer.
    ///
    /// # Cancel safety
    /// After a drop the hold may or may not be over.
    async fn evict(&self, name: &LockName, whom: &Whom) -> Result<Vec<Holder>, BackendError>;

    /// Checks one lock for dangers that only this store has (C31); none by default. `state` was just seen.
    ///
    /// # Errors
    /// [`BackendError`] if the server did not answer.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    async fn examine(&self, state: &LockState) -> Result<Vec<Finding>, BackendError> {
        let _ = state;
        Ok(Vec::new())
    }

    /// Looks at the live server for what endangers locks (C31): settings, rights, its role, its clock.
    ///
    /// All locks of the asking client have names that start with `prefix` (C49). The server may grant rights for that
    /// prefix alone, so a doctor that acquires a lock chooses a name with it.
    ///
    /// # Errors
    /// [`BackendError`] if the server did not answer. A value that the server refuses to show is a [`Finding`].
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    async fn doctor(&self, prefix: &str) -> Result<Vec<Finding>, BackendError>;
}

/// Joins the answers of a store that ends each hold by a request of its own: the holder, or `None` if its hold was over
/// before, which is no failure of an eviction.
///
/// # Errors
/// The error of one of the requests. Its outcome is unknown if another hold was ended, or may have been (C15).
pub fn evicted(
    ended: impl IntoIterator<Item = Result<Option<Holder>, BackendError>>,
) -> Result<Vec<Holder>, BackendError> {
    let (mut evicted, mut failed) = (Vec::new(), None);
    for ended in ended {
        match ended {
            Ok(holder) => evicted.extend(holder),
            Err(error) => failed = Some(error.told_after(failed)),
        }
    }
    match failed {
        None => Ok(evicted),
        Some(error) if evicted.is_empty() => Err(error),
        Some(error) => Err(error.of_unknown_outcome()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Outcome;

    #[test]
    fn c15_an_eviction_that_ended_some_holds_is_no_failure_and_never_not_applied() {
        let holder = || Ok(Some(Holder::foreign(None)));
        let refused = || Err(BackendError::refusal("a store", "no rights"));
        let lost = || Err(BackendError::no_answer("a store", std::time::Duration::ZERO));
        let ended = |ended: Vec<_>| evicted(ended).map(|ended| ended.len());
        assert_eq!(ended(vec![holder(), Ok(None), holder()]).expect("two of three"), 2);
        assert_eq!(ended(vec![Ok(None)]).expect("it was over before"), 0);
        let outcome = |answers| ended(answers).expect_err("a failure").outcome();
        assert_eq!(outcome(vec![refused(), Ok(None), refused()]), Outcome::NotApplied);
        assert_eq!(outcome(vec![holder(), refused()]), Outcome::Unknown);
        assert_eq!(outcome(vec![refused(), holder()]), Outcome::Unknown);
        assert_eq!(outcome(vec![lost(), refused()]), Outcome::Unknown);
        assert_eq!(outcome(vec![refused(), lost()]), Outcome::Unknown);
    }
}
