//! The flaws, one switch each.

use std::fmt;
use std::time::Duration;

use lock_core::backend::{Claim, Extension};
use lock_core::{BackendError, LockState, Outcome};

/// Answer to one renewal.
pub(super) type ExtensionResult = Result<Extension, BackendError>;

/// Chooses the listed locks from all that are held.
pub(super) type Chooses = fn(prefix: &str, limit: usize, held: Vec<LockState>) -> Vec<LockState>;

/// A difference of a broken backend from the sound one.
#[derive(Clone, Copy, Debug)]
pub(super) enum Flaw {
    /// None. It shows that the suite refuses the flaws, and not their wrapper.
    None,
    /// Reads the holder in one transaction, and writes the new owner in another.
    ChecksThenGrants,
    /// Keeps a hold only for these shares of the TTLs that it reports.
    ShortTtl {
        grant: f64,
        repeat: f64,
        extension: f64,
    },
    /// An extension sets the end of the hold, even to an earlier time.
    ExtensionShortens,
    /// Extends an expired hold if nobody has replaced it.
    ExtensionRevives,
    /// Everybody who knows the token can extend the hold.
    AnyOwnerExtends,
    /// Extends a lost hold if its owner holds the lock again.
    AnyTokenExtends,
    /// Changes the answers to a batch.
    AnswersBatch(fn(Vec<ExtensionResult>) -> Vec<ExtensionResult>),
    /// Uses one TTL for all holds of a batch, like a single `UPDATE`.
    OneTtlForAll,
    Lists(Chooses),
    /// Lists rows of holds that expired.
    ListsTheExpired,
    /// A refusal shows the whole owner id.
    RefusalShowsOwner(fn(&Claim) -> BackendError),
    InspectionShowsOwner,
    /// Waits for its disk on the caller's thread in each call.
    Blocks,
    /// Waits for its disk on the caller's thread, but only to list the locks.
    BlocksToList,
    /// Releases the hold and remembers the withdrawal for a while, but leaves the place in the queue.
    RemembersWithdrawal(Duration),
    WithdrawalOfAnyOwner,
    /// Refuses a late request with an error that suggests a retry.
    RefusesForNow,
    ReleaseOfAnyOwner,
    /// Reports that a release ended a hold, even if there was none.
    AlwaysReleased,
    /// An eviction does not report the former holders.
    EvictionTellsNobody,
    /// An eviction does not wake the waiters of that time.
    EvictionForgetsWaiters,
    /// Claims to wake waiters, and wakes none.
    WakesNobody,
    /// A busy lock shows nothing of its holder.
    BusyTellsNothing,
    /// A repeated request finds its own hold in its way, and is busy.
    RepeatIsBusy,
    /// A repeated request makes another grant, with another token.
    RepeatIsAnotherGrant,
    /// Numbers the grants by another rule.
    Numbers(Tokens),
    /// Reserves tokens that were granted, or will be.
    ReservesGranted,
    /// Keeps a hold that yields, even if clients wait on the server.
    NeverYields,
    /// Stores each name in a changed form, so that some names become equal.
    StoresNames(fn(&str) -> String),
    /// Records a run even if its holder has lost the lock.
    RecordsAfterLoss,
    /// An owner that holds the lock again can record for a hold that it lost.
    RecordsUnderAnyToken,
    /// A record never expires.
    RecordsForEver,
    /// A record stays when it should be removed.
    ForgetsNothing,
    /// Compares occurrences in any case.
    OccurrencesInAnyCase,
    /// A watch reports a break of its stream as the end of the hold.
    WatchTellsOfNoLoss,
    /// The time of the grant moves with each inspection.
    SinceMoves,
    /// An inspection returns an earlier state, like a cache that each inspection fills.
    InspectsLate,
    /// Shows an expired hold until another is granted.
    ShowsTheExpired,
    /// Promises signals to the observers of a lock, and sends none.
    TellsNoChanges,
}

/// Source of a lock's next token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tokens {
    /// A counter in the row, which an eviction deletes.
    AnewAfterEviction,
    /// A counter in a key that expires.
    AnewAfterExpiry,
    /// The clock, in seconds.
    OfTheClock,
    /// The row, which keeps the token of its owner after an expiry.
    OfTheOwner,
}

/// Keeps a grant, a repeat and an extension for these shares of their TTLs.
pub(super) const fn short_ttl(grant: f64, repeat: f64, extension: f64) -> Flaw {
    Flaw::ShortTtl { grant, repeat, extension }
}

/// Returns the answers in another order, like rows that were selected without an order.
pub(super) fn in_another_order(answers: Vec<ExtensionResult>) -> Vec<ExtensionResult> {
    answers.into_iter().rev().collect()
}

/// Loses all holds if one is lost, like a transaction that is rolled back.
pub(super) fn all_or_none(mut answers: Vec<ExtensionResult>) -> Vec<ExtensionResult> {
    if answers.iter().any(is_lost) {
        answers.fill(Ok(Extension::Lost));
    }
    answers
}

/// Returns only the successful answers, like `UPDATE … RETURNING`.
pub(super) fn only_the_extended(mut answers: Vec<ExtensionResult>) -> Vec<ExtensionResult> {
    answers.retain(|answer| !is_lost(answer));
    answers
}

fn is_lost(answer: &ExtensionResult) -> bool {
    matches!(answer, Ok(Extension::Lost))
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

/// Shows the owner id in the error's own text.
pub(super) fn in_its_text(claim: &Claim) -> BackendError {
    BackendError::refusal("memory", format!("the claim of {} was withdrawn", claim.owner.expose()))
}

/// Shows the owner id in the driver's text about the failed request.
pub(super) fn in_its_source(claim: &Claim) -> BackendError {
    let source = Failed { statement: format!("CALL acquire('{}')", claim.owner.expose()) };
    BackendError::permanent("memory", Outcome::NotApplied, "the claim was withdrawn", source)
}

/// The error of a driver. Its `Debug` shows the request.
#[derive(Debug)]
struct Failed {
    #[allow(dead_code, reason = "it is shown by `Debug`")]
    statement: String,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the statement failed")
    }
}

impl std::error::Error for Failed {}
