//! Lists the locks that are held, page by page.

use std::time::{Duration, Instant};

use futures_util::stream::{self, TryStreamExt};
use lock_core::backend::Pages;
use lock_core::{BackendError, LockName, LockState, Outcome};

use crate::protocol::error::BACKEND;
use crate::protocol::keys::name_of;

/// Number of locks that one request of a listing inspects.
const PAGE: usize = 500;

/// The states of several locks, in their order. An error means that the key is no lock, or that its server did not
/// answer.
pub(crate) type States = Vec<Result<LockState, BackendError>>;

/// Names of locks that may be held, sorted, and the errors of servers that did not tell all of theirs.
pub(crate) type Names = (Vec<LockName>, Vec<BackendError>);

/// Answer about a key that has no token counter: no client of ours has used the key as a lock.
#[derive(Clone, Copy)]
pub(crate) enum Unused {
    Shown,
    LeftOut,
}

impl Unused {
    /// Returns the argument of the inspect script.
    pub(crate) fn argument(self) -> Option<u64> {
        matches!(self, Self::LeftOut).then_some(1)
    }
}

/// Lists the first `limit` held locks. `names` finds their names within a time, and `inspect` looks at some of them.
///
/// Stops after `time` with an error that says so: half of it is for the names, a quarter for the looks, and the rest for
/// the last answer.
///
/// # Errors
/// The error of `names` or of `inspect`, or of a listing that some servers did not answer.
pub(crate) async fn list<N, S>(
    time: Duration,
    limit: usize,
    names: impl FnOnce(Duration) -> N,
    inspect: impl Fn(Vec<LockName>) -> S,
) -> Result<Vec<LockState>, BackendError>
where
    N: Future<Output = Result<Names, BackendError>>,
    S: Future<Output = Result<States, BackendError>>,
{
    let begun = Instant::now();
    let names = names(time / 2).await?;
    let left = (time / 4 * 3).saturating_sub(begun.elapsed());
    Walk::of(names, limit).held_within(left, inspect).await
}

/// Returns the first `limit` held locks in pages. `names` finds their names, and `inspect` looks at some of them.
pub(crate) fn pages<'a, S>(
    names: impl Future<Output = Names> + Send + 'a,
    limit: usize,
    inspect: impl Fn(Vec<LockName>) -> S + Send + Sync + 'a,
) -> Pages<'a>
where
    S: Future<Output = Result<States, BackendError>> + Send,
{
    let walk = async move { Ok::<_, BackendError>((Walk::of(names.await, limit), inspect)) };
    let pages = stream::once(walk).map_ok(|begun| {
        stream::try_unfold(Some(begun), |walk| async move {
            let Some((mut walk, inspect)) = walk else { return Ok(None) };
            match walk.page(&inspect).await? {
                Some(held) => Ok(Some((held, Some((walk, inspect))))),
                None => walk.end(Vec::new()).map(|_| None),
            }
        })
    });
    Box::pin(pages.try_flatten())
}

/// A walk over names, in steps of a page.
struct Walk {
    names: std::vec::IntoIter<LockName>,
    /// The number of locks that are still asked for.
    left: usize,
    /// The errors so far.
    missing: Vec<BackendError>,
}

impl Walk {
    fn of((names, missing): Names, limit: usize) -> Self {
        Self { names: names.into_iter(), left: limit, missing }
    }

    /// Returns those of the next names that are held; `None` if no further lock is asked for, or there is none.
    async fn page<F>(
        &mut self,
        inspect: impl Fn(Vec<LockName>) -> F,
    ) -> Result<Option<Vec<LockState>>, BackendError>
    where
        F: Future<Output = Result<States, BackendError>>,
    {
        let names: Vec<LockName> = self.names.by_ref().take(PAGE).collect();
        if names.is_empty() || self.left == 0 {
            return Ok(None);
        }
        let mut held = Vec::new();
        for state in inspect(names).await? {
            match state {
                Ok(state) if state.holder().is_some() => held.push(state),
                Ok(_) => {}
                // A key that is no lock must not hide locks.
                Err(error) if error.found().is_some() => {}
                Err(error) if is_told(&self.missing, &error) => {}
                Err(error) => self.missing.push(error),
            }
        }
        held.truncate(self.left);
        self.left -= held.len();
        Ok(Some(held))
    }

    /// Returns the held locks of all pages, or of those of `time`.
    async fn held_within<F>(
        mut self,
        time: Duration,
        inspect: impl Fn(Vec<LockName>) -> F,
    ) -> Result<Vec<LockState>, BackendError>
    where
        F: Future<Output = Result<States, BackendError>>,
    {
        let (mut held, begun, all) = (Vec::new(), Instant::now(), self.names.len());
        while self.names.len() > 0 && self.left > 0 {
            if begun.elapsed() >= time {
                let seen = all - self.names.len();
                self.missing
                    .push(cut_short(time, &format!("{seen} of {all} names were looked at")));
                break;
            }
            held.extend(self.page(&inspect).await?.unwrap_or_default());
        }
        self.end(held)
    }

    /// Returns the locks that were found, or the errors.
    fn end(self, held: Vec<LockState>) -> Result<Vec<LockState>, BackendError> {
        match (&held[..], &self.missing[..]) {
            (_, []) => Ok(held),
            ([], [alone]) => Err(alone.clone()),
            _ => Err(BackendError::incomplete(BACKEND, held, &self.missing)),
        }
    }
}

/// Returns the names of the locks with these keys, each once, sorted.
pub(crate) fn names_of(keys: &[String]) -> Vec<LockName> {
    let mut names: Vec<LockName> = keys.iter().filter_map(|key| name_of(key)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The error of a listing that stopped at its time limit.
pub(crate) fn cut_short(time: Duration, done: &str) -> BackendError {
    let context = format!("the listing stopped after {time:.1?}");
    let advice = format!("{done}; list a longer prefix, or look at a lock by its name");
    BackendError::transient(BACKEND, Outcome::NotApplied, context, advice)
}

fn is_told(errors: &[BackendError], error: &BackendError) -> bool {
    errors.iter().any(|other| other.to_string() == error.to_string())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const LIMIT: Duration = Duration::from_millis(20);

    fn names(count: usize) -> Vec<LockName> {
        (0..count).map(|number| LockName::new(number.to_string()).expect("a name")).collect()
    }

    /// C17: a listing of too many names has the locks that it found in time, and a word on the rest.
    #[tokio::test]
    async fn c17_a_listing_that_takes_too_long_is_cut_short() {
        let (names, looks) = (names(3 * PAGE), Cell::new(0));
        let free = |page: Vec<LockName>| {
            looks.set(looks.get() + 1);
            async move {
                tokio::time::sleep(LIMIT).await;
                let state = |name| Ok(LockState::new(name, None, None));
                Ok(page.into_iter().map(state).collect())
            }
        };
        let walk = Walk::of((names, Vec::new()), 10);
        let cut = walk.held_within(LIMIT, free).await.expect_err("it took too long");
        assert_eq!(looks.get(), 1);
        let text = cut.to_string();
        assert!(text.contains("500 of 1500 names were looked at"), "{text}");
    }
}
