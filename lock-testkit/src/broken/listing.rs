//! Listings of other locks than the requested ones.

use async_trait::async_trait;
use lock_core::{Holder, LockAdmin, LockState};

use super::flaw::{Flaw, Listed, Sound};

/// Chooses from all locks that are held.
#[derive(Debug)]
pub(super) struct Listing {
    chosen: fn(prefix: &str, limit: usize, held: Vec<LockState>) -> Vec<LockState>,
}

impl Listing {
    pub(super) fn of(chosen: fn(&str, usize, Vec<LockState>) -> Vec<LockState>) -> Self {
        Self { chosen }
    }
}

#[async_trait]
impl Flaw for Listing {
    async fn list(&self, sound: &Sound, prefix: &str, limit: usize) -> Listed {
        let held = sound.list("", usize::MAX).await?;
        Ok((self.chosen)(prefix, limit, held))
    }
}

fn those(limit: usize, held: Vec<LockState>, is_chosen: impl Fn(&str) -> bool) -> Vec<LockState> {
    held.into_iter().filter(|state| is_chosen(state.name.as_str())).take(limit).collect()
}

/// Behaves like `LIKE` with a `%` in the prefix.
pub(super) fn with_percent(prefix: &str, limit: usize, held: Vec<LockState>) -> Vec<LockState> {
    those(limit, held, |name| {
        let mut parts = prefix.split('%');
        let rest = parts.next().and_then(|first| name.strip_prefix(first));
        let next = |rest: &str, part: &str| Some(rest.find(part)? + part.len());
        rest.is_some_and(|rest| {
            parts.try_fold(rest, |rest, part| Some(&rest[next(rest, part)?..])).is_some()
        })
    })
}

/// Behaves like `LIKE` with a `_` in the prefix.
pub(super) fn with_underscore(prefix: &str, limit: usize, held: Vec<LockState>) -> Vec<LockState> {
    those(limit, held, |name| {
        let is_long_enough = name.chars().count() >= prefix.chars().count();
        let mut pairs = prefix.chars().zip(name.chars());
        is_long_enough && pairs.all(|(asked, found)| asked == '_' || asked == found)
    })
}

/// Behaves like a collation that ignores case.
pub(super) fn in_any_case(prefix: &str, limit: usize, held: Vec<LockState>) -> Vec<LockState> {
    let prefix = prefix.to_lowercase();
    those(limit, held, |name| name.to_lowercase().starts_with(&prefix))
}

/// Returns the rows unsorted.
pub(super) fn unsorted(prefix: &str, limit: usize, mut held: Vec<LockState>) -> Vec<LockState> {
    held.reverse();
    those(limit, held, |name| name.starts_with(prefix))
}

/// Ignores the limit.
pub(super) fn unbounded(prefix: &str, _limit: usize, held: Vec<LockState>) -> Vec<LockState> {
    those(usize::MAX, held, |name| name.starts_with(prefix))
}

/// Lists rows of holds that expired.
#[derive(Debug)]
pub(super) struct ListsTheExpired;

#[async_trait]
impl Flaw for ListsTheExpired {
    async fn list(&self, sound: &Sound, prefix: &str, limit: usize) -> Listed {
        let mut names = sound.claims.names();
        names.retain(|name| name.as_str().starts_with(prefix));
        names.sort_unstable();
        let held = |name| LockState::new(name, Some(Holder::foreign(None)), None);
        Ok(names.into_iter().map(held).take(limit).collect())
    }
}
