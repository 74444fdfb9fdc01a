//! What the answers of the servers come to, for holds that stand.

use std::sync::Arc;

use lock_core::backend::{Extension, Release};
use lock_core::{BackendError, Ttl};

use super::majority::{Answers, have_answered, majority, pending, said, too_few};
use super::voter::Voter;

/// Whether further answers could not change what a release comes to.
pub(super) fn is_released(answers: &Answers<Release>) -> bool {
    let released = released(answers);
    let hopeless = released + answers.len() - said(answers).count() < majority(answers.len());
    released >= majority(answers.len()) || hopeless || pending(answers) == 0
}

/// What a release comes to, which a majority must have answered.
pub(super) fn release(answers: &Answers<Release>) -> Result<Release, BackendError> {
    if !have_answered(answers) {
        return Err(too_few(answers));
    }
    let (released, unknown) = (released(answers), answers.len() - said(answers).count());
    // C14: a server that does not answer may have had the hold.
    match released > 0 && released + unknown >= majority(answers.len()) {
        true => Ok(Release::Released),
        false => Ok(Release::NotHeld),
    }
}

fn released(answers: &Answers<Release>) -> usize {
    said(answers).filter(|answer| matches!(answer, Release::Released)).count()
}

/// Whether further answers could not change what any of so many extensions comes to.
pub(super) fn are_extended(answers: &Answers<Vec<u8>>, count: usize) -> bool {
    let majority = majority(answers.len());
    let is_settled = |index| {
        let (stands, unknown) = standing(answers, index);
        stands >= majority || stands + unknown < majority
    };
    pending(answers) == 0 || (0..count).all(is_settled)
}

/// What the extension of one hold comes to.
pub(super) fn extension(
    answers: &Answers<Vec<u8>>,
    index: usize,
    ttl: Ttl,
) -> Result<Extension, BackendError> {
    let (stands, unknown) = standing(answers, index);
    // C10: a hold that no majority has may be another's already.
    match majority(answers.len()) {
        majority if stands >= majority => Ok(Extension::Extended(ttl.as_duration())),
        majority if stands + unknown < majority => Ok(Extension::Lost),
        _ => Err(too_few(answers)),
    }
}

/// The servers that do not have a hold any more, while a majority has it.
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

/// On how many servers a hold stands, and how many do not say.
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
