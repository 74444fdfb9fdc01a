//! Joins the views of the servers of a set on locks.

use std::sync::Arc;

use lock_core::{BackendError, Holder, LockName, LockState};

use super::keys::of_inspection;
use super::majority::{Answers, have_answered, majority, said, too_few};
use super::round::Round;
use super::voter::Voter;
use crate::protocol::keys::Keys;
use crate::protocol::listing::{States, Unused};
use crate::protocol::reply;
use crate::scripts::INSPECT;

/// Inspects several locks. A lock is held if a majority may have the same holder.
pub(super) async fn inspect_all(
    voters: &[Arc<Voter>],
    names: Vec<LockName>,
    unused: Unused,
) -> Result<States, BackendError> {
    let names: Arc<[LockName]> = names.into();
    let mut round = ask_all(voters, &names, unused);
    let answers = round.all().await;
    if !have_answered(answers) {
        return Err(too_few(answers));
    }
    Ok(names.iter().enumerate().map(|(index, name)| state(name, answers, index)).collect())
}

/// Asks each server for its view on these locks.
pub(super) fn ask_all(
    voters: &[Arc<Voter>],
    names: &Arc<[LockName]>,
    unused: Unused,
) -> Round<States> {
    Round::ask(voters, |voter| {
        let names = names.clone();
        async move { voter.inspect(&names, unused).await }
    })
}

/// Returns the holder on one server of the lock at `index` in the request.
pub(super) fn holder_on(
    answer: &Option<Result<States, BackendError>>,
    index: usize,
) -> Option<&Holder> {
    answer.as_ref()?.as_ref().ok()?.get(index)?.as_ref().ok()?.holder()
}

impl Voter {
    async fn inspect(&self, names: &[LockName], unused: Unused) -> Result<States, BackendError> {
        let keys: Vec<Keys<'_>> = names.iter().map(Keys::new).collect();
        let keys: Vec<_> = keys.iter().flat_map(of_inspection).collect();
        let ask = self.server.run(&INSPECT, &keys, unused.argument());
        let names: Vec<&LockName> = names.iter().collect();
        reply::states(&names, self.within_limit(ask).await?)
    }
}

/// Returns the state of the lock at `index` in the request.
pub(super) fn state(
    name: &LockName,
    answers: &Answers<States>,
    index: usize,
) -> Result<LockState, BackendError> {
    let mut holders = Vec::new();
    for state in said(answers).filter_map(|states| states.get(index)) {
        // C49: the answer of one server is enough.
        holders.push(state.as_ref().map_err(Clone::clone)?.holder());
    }
    let holder = strongest(holders.into_iter().flatten(), answers);
    // Each server knows only its own waiters.
    Ok(LockState::new(name.clone(), holder, None))
}

/// Returns the holder that a majority of the servers may have, with its earliest start and its latest end.
pub(super) fn strongest<'a, T>(
    holders: impl Iterator<Item = &'a Holder>,
    answers: &Answers<T>,
) -> Option<Holder> {
    let holders: Vec<&Holder> = holders.collect();
    let is_same =
        |one: &Holder, other: &Holder| (&one.owner, one.token) == (&other.owner, other.token);
    let count = |of: &Holder| holders.iter().filter(|other| is_same(of, other)).count();
    let strongest = holders.iter().max_by_key(|holder| count(holder))?;
    // A server without an answer may have the hold too.
    let unknown = answers.len() - said(answers).count();
    if count(strongest) + unknown < majority(answers.len()) {
        return None;
    }
    let same = || holders.iter().filter(|other| is_same(strongest, other));
    let mut holder = (**same().min_by_key(|holder| holder.since)?).clone();
    // A hold without an end is the longest.
    let left: Option<Vec<_>> = same().map(|same| same.ttl_left).collect();
    holder.ttl_left = left.and_then(|left| left.into_iter().max());
    Some(holder)
}
