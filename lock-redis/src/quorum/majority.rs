//! What the answers of all servers to one question come to.

use lock_core::{BackendError, Outcome};

use super::BACKEND;

/// What each server answered, in the order of the servers; `None` for one that has not answered yet.
pub(super) type Answers<T> = [Option<Result<T, BackendError>>];

/// How many of so many servers are a majority: of all, never of those that answer.
pub(super) fn majority(servers: usize) -> usize {
    servers / 2 + 1
}

/// What the servers said that answered.
pub(super) fn said<T>(answers: &Answers<T>) -> impl Iterator<Item = &T> + Clone {
    answers.iter().flatten().filter_map(|answer| answer.as_ref().ok())
}

/// How many servers may still answer.
pub(super) fn pending<T>(answers: &Answers<T>) -> usize {
    answers.iter().filter(|answer| answer.is_none()).count()
}

/// Whether a majority has answered.
pub(super) fn have_answered<T>(answers: &Answers<T>) -> bool {
    said(answers).count() >= majority(answers.len())
}

/// What a request comes to that fewer than a majority have answered.
pub(super) fn too_few<T>(answers: &Answers<T>) -> BackendError {
    no_majority(answers, errors(answers).map(ToString::to_string).collect())
}

/// What a request comes to that no majority agrees to, for these reasons (C15).
pub(super) fn no_majority<T>(answers: &Answers<T>, mut reasons: Vec<String>) -> BackendError {
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

fn errors<T>(answers: &Answers<T>) -> impl Iterator<Item = &BackendError> {
    answers.iter().flatten().filter_map(|answer| answer.as_ref().err())
}
