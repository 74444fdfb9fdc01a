//! Joins the answers of all servers to one question.

use std::sync::Arc;

use lock_core::backend::{Extension, Release};
use lock_core::{BackendError, Outcome, Ttl};

use super::BACKEND;
use super::voter::Voter;

/// The answer of each server, in the order of the servers; `None` for one that has not answered yet.
pub(super) type Answers<T> = [Option<Result<T, BackendError>>];

/// Returns the majority of `servers`: of all servers, never of those that answer.
pub(super) fn majority(servers: usize) -> usize {
    servers / 2 + 1
}

/// Returns the answers of the servers that succeeded.
pub(super) fn said<T>(answers: &Answers<T>) -> impl Iterator<Item = &T> + Clone {
    answers.iter().flatten().filter_map(|answer| answer.as_ref().ok())
}

/// Returns the number of servers that may still answer.
pub(super) fn pending<T>(answers: &Answers<T>) -> usize {
    answers.iter().filter(|answer| answer.is_none()).count()
}

/// Returns true if a majority has answered.
pub(super) fn have_answered<T>(answers: &Answers<T>) -> bool {
    said(answers).count() >= majority(answers.len())
}

/// Returns the error of a request without the answers of a majority (C15).
pub(super) fn too_few<T>(answers: &Answers<T>) -> BackendError {
    let mut reasons: Vec<_> = errors(answers).map(ToString::to_string).collect();
    let (servers, needed) = (answers.len(), majority(answers.len()));
    let refuse_for_good = errors(answers).filter(|error| !error.is_transient()).count();
    let unknown = errors(answers).any(|error| error.outcome() == Outcome::Unknown);
    let outcome = match unknown || pending(answers) > 0 {
        true => Outcome::Unknown,
        false => Outcome::NotApplied,
    };
    reasons.dedup();
    let context = format!("fewer than {needed} of {servers} servers agree");
    match servers - refuse_for_good < needed {
        true => BackendError::permanent(BACKEND, outcome, context, reasons.join("; ")),
        false => BackendError::transient(BACKEND, outcome, context, reasons.join("; ")),
    }
}

/// Returns the errors of the servers that failed.
pub(super) fn errors<T>(answers: &Answers<T>) -> impl Iterator<Item = &BackendError> {
    answers.iter().flatten().filter_map(|answer| answer.as_ref().err())
}

/// Returns true if further answers could not change the outcome of a release.
pub(super) fn is_released(answers: &Answers<Release>) -> bool {
    let released = released(answers);
    let hopeless = released + answers.len() - said(answers).count() < majority(answers.len());
    released >= majority(answers.len()) || hopeless || pending(answers) == 0
}

/// Returns the outcome of a release, which a majority must have answered.
pub(super) fn release(answers: &Answers<Release>) -> Result<Release, BackendError> {
    if !have_answered(answers) {
        return Err(too_few(answers));
    }
    let (released, unknown) = (released(answers), answers.len() - said(answers).count());
    // C14: a server without an answer may have had the hold.
    match released > 0 && released + unknown >= majority(answers.len()) {
        true => Ok(Release::Released),
        false => Ok(Release::NotHeld),
    }
}

fn released(answers: &Answers<Release>) -> usize {
    said(answers).filter(|answer| matches!(answer, Release::Released)).count()
}

/// Returns true if further answers could not change the outcome of any of `count` extensions.
pub(super) fn are_extended(answers: &Answers<Vec<u8>>, count: usize) -> bool {
    let majority = majority(answers.len());
    let is_settled = |index| {
        let (stands, unknown) = standing(answers, index);
        stands >= majority || stands + unknown < majority
    };
    pending(answers) == 0 || (0..count).all(is_settled)
}

/// Returns the outcome of the extension of one hold.
pub(super) fn extension(
    answers: &Answers<Vec<u8>>,
    index: usize,
    ttl: Ttl,
) -> Result<Extension, BackendError> {
    let (stands, unknown) = standing(answers, index);
    // C10: a hold without a majority may already belong to another.
    match majority(answers.len()) {
        majority if stands >= majority => Ok(Extension::Extended(ttl.as_duration())),
        majority if stands + unknown < majority => Ok(Extension::Lost),
        _ => Err(too_few(answers)),
    }
}

/// Returns the servers that lack a hold, while a majority has it. Servers that count for nobody are in neither.
pub(super) fn forgetful<'a>(
    voters: &'a [Arc<Voter>],
    answers: &'a Answers<Vec<u8>>,
    index: usize,
) -> impl Iterator<Item = &'a Arc<Voter>> {
    let stands = standing(answers, index).0 >= majority(answers.len());
    let forgot = move |answer: &Option<Result<Vec<u8>, BackendError>>| {
        stands && matches!(answer, Some(Ok(holds)) if holds[index] == 0)
    };
    voters.iter().zip(answers).filter(move |(_, answer)| forgot(answer)).map(|(voter, _)| voter)
}

/// Returns the number of servers that have a hold, and the number without an answer.
fn standing(answers: &Answers<Vec<u8>>, index: usize) -> (usize, usize) {
    let stands = said(answers).filter(|holds| holds[index] == 1).count();
    (stands, answers.len() - said(answers).count())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SILENT: Option<bool> = None;

    fn answered<T: Clone>(
        of: &[Option<bool>],
        yes: T,
        no: T,
    ) -> Vec<Option<Result<T, BackendError>>> {
        let answer = |answer: &Option<bool>| match answer {
            Some(true) => Ok(yes.clone()),
            Some(false) => Ok(no.clone()),
            None => Err(BackendError::no_answer("test", Duration::ZERO)),
        };
        of.iter().map(|of| Some(answer(of))).collect()
    }

    #[test]
    fn c14_a_release_needs_the_answers_of_a_majority() {
        for (answers, expected) in [
            ([Some(true), Some(true), SILENT], Some(Release::Released)),
            ([Some(true), Some(false), SILENT], Some(Release::Released)),
            ([Some(true), Some(false), Some(false)], Some(Release::NotHeld)),
            ([Some(false), Some(false), SILENT], Some(Release::NotHeld)),
            ([Some(true), SILENT, SILENT], None),
        ] {
            let seen = answered(&answers, Release::Released, Release::NotHeld);
            assert_eq!(release(&seen).ok(), expected, "{answers:?}");
        }
    }

    #[test]
    fn c10_a_hold_is_lost_once_no_majority_can_have_it() {
        for (answers, expected) in [
            ([Some(true), Some(true), Some(false)], Some(true)),
            ([Some(true), Some(false), Some(false)], Some(false)),
            ([Some(true), Some(false), SILENT], None),
            ([Some(false), Some(false), SILENT], Some(false)),
        ] {
            let seen = answered(&answers, vec![1], vec![0]);
            let answer = extension(&seen, 0, Ttl::default()).ok();
            let extended = answer.map(|answer| answer != Extension::Lost);
            assert_eq!(extended, expected, "{answers:?}");
        }
    }
}
