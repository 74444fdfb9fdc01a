//! The locks that are held, looked at page by page.

use std::collections::BTreeSet;

use lock_core::{BackendError, LockName, LockState};

use crate::protocol::keys::name_of_counter;

/// Number of locks that one request of a listing looks at.
const PAGE: usize = 100;

/// The states of several locks, in their order. One whose key is no lock is an error.
pub(crate) type States = Vec<Result<LockState, BackendError>>;

/// The names of the locks that have these token counters, each once, sorted.
pub(crate) fn names_of<'a>(counters: impl Iterator<Item = &'a String>) -> Vec<LockName> {
    let names: BTreeSet<LockName> = counters.filter_map(|key| name_of_counter(key)).collect();
    names.into_iter().collect()
}

/// The first `limit` of these locks that are held. `inspect` looks at some of them.
pub(crate) async fn held<F>(
    names: &[LockName],
    limit: usize,
    inspect: impl Fn(Vec<LockName>) -> F,
) -> Result<Vec<LockState>, BackendError>
where
    F: Future<Output = Result<States, BackendError>>,
{
    let mut held = Vec::new();
    for page in names.chunks(PAGE) {
        // A key that is no lock hides no lock.
        let states = inspect(page.to_vec()).await?.into_iter().filter_map(Result::ok);
        held.extend(states.filter(|state| state.holder().is_some()));
        if held.len() >= limit {
            break;
        }
    }
    held.truncate(limit);
    Ok(held)
}
