//! Counts the votes of the voters.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lock_core::backend::ServerTime;
use lock_core::{BackendError, Contention, FencingToken};
use redis::Value;

use super::BACKEND;
use super::majority::{Answers, majority, pending, said, too_few};
use crate::protocol::error::unreadable;
use crate::protocol::holders::holders;
use crate::protocol::reply;

/// Answer of one voter to an attempt.
#[derive(Clone, Debug)]
pub(super) enum Vote {
    /// The claim holds the lock there, with this token.
    Granted(FencingToken),
    /// The lock is free there, and the ballot is no greater than this counter.
    Stale(u64),
    /// Another holds it there.
    Busy(Foreign),
    /// The voter answers that no retry will help.
    Refused(BackendError),
}

/// A hold of another on a voter.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Foreign {
    value: Vec<u8>,
    left: Option<Duration>,
}

/// Outcome of an attempt.
#[derive(Debug)]
pub(super) enum Verdict {
    Granted(FencingToken),
    /// Nobody else may have a majority, and this is the greatest counter: a greater ballot may win.
    Stale(u64),
    /// Nobody has a majority: several candidates share the voters.
    Split,
    Busy(Contention),
    /// Too few voters voted.
    NoMajority(BackendError),
    /// One voter answers that no retry will help.
    Refused(BackendError),
}

pub(super) fn read(reply: Value) -> Result<Vote, BackendError> {
    const WHAT: &str = "a vote";
    let parts: Vec<Vec<u8>> = reply::read(reply, WHAT)?;
    let number = |part: &Vec<u8>| -> Option<i64> { str::from_utf8(part).ok()?.parse().ok() };
    let vote = || match (parts.first()?.as_slice(), parts.get(1..)?) {
        (b"granted", [token]) => Some(Vote::Granted(str::from_utf8(token).ok()?.parse().ok()?)),
        (b"stale", [counter]) => Some(Vote::Stale(number(counter)?.try_into().ok()?)),
        (b"busy", [value, left]) => {
            let left = u64::try_from(number(left)?).ok().map(Duration::from_millis);
            Some(Vote::Busy(Foreign { value: value.clone(), left }))
        }
        // C19, C49: the answer of one voter is enough.
        (b"withdrawn", []) => Some(Vote::Refused(BackendError::withdrawn(BACKEND))),
        (b"no lock", [kind]) => {
            let found = format!("a key of type {}", String::from_utf8_lossy(kind));
            Some(Vote::Refused(BackendError::not_a_lock(BACKEND, found)))
        }
        _ => None,
    };
    vote().ok_or_else(|| unreadable(WHAT))
}

/// Returns true if no further answer could change the outcome of an attempt. Once a majority has voted, voters that
/// were silent before are not waited for.
pub(super) fn is_decided(answers: &Answers<Vote>, silent: &[bool]) -> bool {
    let majority = majority(answers.len());
    let is_awaited = |(answer, silent): &(&Option<_>, &bool)| answer.is_none() && !**silent;
    let awaited = answers.iter().zip(silent).filter(is_awaited).count();
    let (_, most) = most_votes(answers);
    let hopeless = most + awaited < majority && voters(answers) >= majority;
    pending(answers) == 0 || most >= majority || hopeless || refusal(answers).is_some()
}

/// Returns the outcome of the votes. A voter without an answer counts as a vote for nobody.
pub(super) fn verdict(answers: &Answers<Vote>) -> Verdict {
    // A majority of all voters, never of those that answer.
    let majority = majority(answers.len());
    if let Some(refusal) = refusal(answers) {
        return Verdict::Refused(refusal);
    }
    let (token, own) = most_votes(answers);
    if let Some(token) = token.filter(|_| own >= majority) {
        return Verdict::Granted(token);
    }
    let voters = voters(answers);
    if voters < majority {
        return Verdict::NoMajority(too_few(answers));
    }
    // Missing votes may belong to another. But a candidate with votes does not wait for that other: if neither has a
    // majority, nobody wakes the two.
    let absent = if own > 0 { 0 } else { answers.len() - voters };
    match strongest_other(answers) {
        Some((other, voters)) if voters + absent >= majority => Verdict::Busy(contention(&other)),
        _ => match said(answers).filter_map(counter).max() {
            Some(counter) => Verdict::Stale(counter),
            None => Verdict::Split,
        },
    }
}

/// Returns the number of voters that have voted.
fn voters(answers: &Answers<Vote>) -> usize {
    said(answers).filter(|vote| !matches!(vote, Vote::Refused(_))).count()
}

fn counter(vote: &Vote) -> Option<u64> {
    match vote {
        Vote::Stale(counter) => Some(*counter),
        _ => None,
    }
}

/// Returns the token that most voters granted, and their number.
fn most_votes(answers: &Answers<Vote>) -> (Option<FencingToken>, usize) {
    let tokens = said(answers).filter_map(|vote| match vote {
        Vote::Granted(token) => Some(*token),
        _ => None,
    });
    most_frequent(tokens).map_or((None, 0), |(token, voters)| (Some(token), voters))
}

/// Returns the other holder with most voters, and their number. The longest TTL left counts.
fn strongest_other(answers: &Answers<Vote>) -> Option<(Foreign, usize)> {
    let others = || {
        said(answers).filter_map(|vote| match vote {
            Vote::Busy(other) => Some(other),
            _ => None,
        })
    };
    let (who, voters) = most_frequent(others().map(identity))?;
    let holding = others().filter(|other| identity(other) == who);
    // A hold without an end is the longest.
    let longest = holding.max_by_key(|other| other.left.map_or(Duration::MAX, |left| left))?;
    Some((longest.clone(), voters))
}

/// Returns owner and token of a hold of ours, which are the same on each voter; the whole value of any other hold.
fn identity(other: &Foreign) -> &[u8] {
    let mut colons = other.value.iter().enumerate().filter(|(_, byte)| **byte == b':');
    match colons.nth(1) {
        Some((end, _)) => &other.value[..end],
        None => &other.value,
    }
}

fn most_frequent<T: Eq + Hash + Copy>(all: impl Iterator<Item = T>) -> Option<(T, usize)> {
    let mut counts = HashMap::new();
    all.for_each(|one| *counts.entry(one).or_insert(0) += 1);
    counts.into_iter().max_by_key(|(_, count)| *count)
}

fn contention(other: &Foreign) -> Contention {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let holder = holders(&other.value, other.left, ServerTime(now)).pop();
    let mut contention = Contention::unknown();
    contention.ttl_left = other.left;
    // C49: a lock that a client of locks holds has a TTL.
    contention.foreign_without_ttl = other.left.is_none();
    contention.holder = holder.map(|holder| holder.label);
    contention
}

fn refusal(answers: &Answers<Vote>) -> Option<BackendError> {
    said(answers).find_map(|vote| match vote {
        Vote::Refused(error) => Some(error.clone()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quorum::absence;

    fn granted() -> Option<Result<Vote, BackendError>> {
        Some(Ok(Vote::Granted(FencingToken::new(7).expect("a token"))))
    }

    fn busy() -> Option<Result<Vote, BackendError>> {
        let left = Some(Duration::from_secs(1));
        Some(Ok(Vote::Busy(Foreign { value: b"other:5:0:".to_vec(), left })))
    }

    fn stale() -> Option<Result<Vote, BackendError>> {
        Some(Ok(Vote::Stale(9)))
    }

    fn silent() -> Option<Result<Vote, BackendError>> {
        Some(Err(BackendError::no_answer("test", Duration::ZERO)))
    }

    /// C28: of two candidates that share the remaining voters, neither would be woken.
    #[test]
    fn c28_who_has_votes_does_not_wait_for_one_who_may_have_a_majority() {
        let split = verdict(&[granted(), busy(), silent()]);
        assert!(matches!(split, Verdict::Split), "{split:?}");
        let behind = verdict(&[granted(), stale(), silent()]);
        assert!(matches!(behind, Verdict::Stale(9)), "{behind:?}");
    }

    /// If a majority waited for a silent server, each split vote would take the voter's time limit.
    #[test]
    fn c17_who_was_silent_is_waited_for_by_no_majority() {
        let heard = [false; 3];
        assert!(!is_decided(&[granted(), busy(), None], &heard), "it may decide");
        assert!(is_decided(&[granted(), busy(), None], &[false, false, true]));
        assert!(is_decided(&[busy(), busy(), None], &heard), "another has a majority");
        assert!(!is_decided(&[granted(), None, None], &[false, true, true]), "no majority voted");
    }

    #[test]
    fn s3_a_voter_that_does_not_answer_may_be_anothers() {
        for others in [[busy(), stale(), silent()], [busy(), busy(), silent()]] {
            let verdict = verdict(&others);
            assert!(matches!(verdict, Verdict::Busy(_)), "{verdict:?}");
        }
        let lost = verdict(&[granted(), busy(), busy()]);
        assert!(matches!(lost, Verdict::Busy(_)), "{lost:?}");
        let won = verdict(&[granted(), granted(), silent()]);
        assert!(matches!(won, Verdict::Granted(_)), "{won:?}");
    }

    /// Any reply is a vote, or is refused by a typed error.
    #[test]
    fn fuzz_votes() {
        const WORDS: [&str; 6] = ["granted", "stale", "busy", "out", "new", "no lock"];
        lock_fuzz::check(|(choice, parts): &(u8, lock_fuzz::Parts)| {
            let word = WORDS[usize::from(*choice) % WORDS.len()];
            let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
            let rest = parts.iter().map(|(choice, number)| match choice {
                0..128 => text(&number.to_string()),
                _ => text(&lock_fuzz::any_text(*number)),
            });
            let reply = Value::Array(std::iter::once(text(word)).chain(rest).collect());
            let _ = [absence::of(&reply), absence::of(&reply::tests::value(parts))];
            let answers = [Some(read(reply)), Some(read(reply::tests::value(parts))), None];
            let _ = (is_decided(&answers, &[false; 3]), verdict(&answers));
        });
    }
}
