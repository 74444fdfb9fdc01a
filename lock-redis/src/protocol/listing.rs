//! Lists the locks that are held, page by page.

use std::collections::BTreeSet;

use lock_core::{BackendError, LockName, LockState};

use crate::protocol::error::BACKEND;
use crate::protocol::keys::name_of_counter;

/// Number of locks that one request of a listing inspects.
const PAGE: usize = 100;

/// The states of several locks, in their order. An error means that the key is no lock, or that its server did not
/// answer.
pub(crate) type States = Vec<Result<LockState, BackendError>>;

/// Returns the names of the locks with these token counters, each once, sorted.
pub(crate) fn names_of<'a>(counters: impl Iterator<Item = &'a String>) -> Vec<LockName> {
    let names: BTreeSet<LockName> = counters.filter_map(|key| name_of_counter(key)).collect();
    names.into_iter().collect()
}

/// Returns the first `limit` of these locks that are held. `inspect` inspects some of them, and `missing` has the
/// errors of servers that did not list their names.
///
/// # Errors
/// The error of `inspect`, or of a listing that some servers did not answer.
pub(crate) async fn held<F>(
    names: &[LockName],
    limit: usize,
    mut missing: Vec<BackendError>,
    inspect: impl Fn(Vec<LockName>) -> F,
) -> Result<Vec<LockState>, BackendError>
where
    F: Future<Output = Result<States, BackendError>>,
{
    let mut held = Vec::new();
    for page in names.chunks(PAGE) {
        for state in inspect(page.to_vec()).await? {
            match state {
                Ok(state) if state.holder().is_some() => held.push(state),
                Ok(_) => {}
                // A key that is no lock must not hide locks.
                Err(error) if error.found().is_some() => {}
                Err(error) if is_told(&missing, &error) => {}
                Err(error) => missing.push(error),
            }
        }
        if held.len() >= limit {
            break;
        }
    }
    held.truncate(limit);
    match (&held[..], &missing[..]) {
        (_, []) => Ok(held),
        ([], [alone]) => Err(alone.clone()),
        _ => Err(BackendError::incomplete(BACKEND, held, &missing)),
    }
}

fn is_told(errors: &[BackendError], error: &BackendError) -> bool {
    errors.iter().any(|other| other.to_string() == error.to_string())
}
