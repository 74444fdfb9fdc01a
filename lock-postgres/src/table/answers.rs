//! Reads the answers of the functions.

use std::time::UNIX_EPOCH;

use lock_core::backend::{
    Attempt, Claim, Extension, Grant, Recording, Release, Renewal, ServerTime, TokenRange,
};
use lock_core::{
    BackendError, Contention, Holder, Kind, Label, LockName, LockState, Occurrence, Outcome,
    Permits, RecordedRun, Slots,
};
use sqlx::postgres::PgRow;

use crate::error::{BACKEND, unreadable};
use crate::reply::{fencing_token, get, micros};

/// Reads the answer to an acquire: token, now, time left, holder, waiters ahead, slots, number of permits, that of the
/// first waiter, and its label.
pub(crate) fn attempt(claim: &Claim, row: &PgRow) -> Result<Attempt, BackendError> {
    const WHAT: &str = "the answer to an acquire";
    let at = ServerTime(micros(get(row, 1, WHAT)?));
    if let Some(token) = get::<Option<i64>>(row, 0, WHAT)? {
        let grant = Grant::new(fencing_token(token)?, claim.ttl.as_duration()).at(at);
        return Ok(Attempt::Granted(grant.with_slots(slots(row, 5)?)));
    }
    let counted = get::<Option<i64>>(row, 6, WHAT)?.unwrap_or(0);
    if counted == -1 {
        // C19: a late request of a withdrawn claim takes nothing.
        return Err(BackendError::withdrawn(BACKEND));
    }
    let mut contention = Contention::unknown();
    contention.ttl_left = get::<Option<i64>>(row, 2, WHAT)?.map(micros);
    contention.holder =
        get::<Option<String>>(row, 3, WHAT)?.and_then(|label| Label::new(label).ok());
    contention.position =
        get::<Option<i64>>(row, 4, WHAT)?.and_then(|ahead| u64::try_from(ahead).ok());
    contention.at = Some(at);
    contention.permits = small(counted, WHAT)?;
    let first = small(get::<Option<i64>>(row, 7, WHAT)?.unwrap_or(0), WHAT)?;
    let label = get::<Option<String>>(row, 8, WHAT)?.and_then(|label| Label::new(label).ok());
    contention.first_waiter = label.filter(|_| first > 0).map(|label| Box::new((first, label)));
    Ok(Attempt::Busy(contention))
}

/// Reads the answers to renewals, one digit each.
pub(super) fn extensions(
    renewals: &[Renewal],
    answers: &str,
) -> Vec<Result<Extension, BackendError>> {
    let extension = |(answer, renewal): (char, &Renewal)| match answer {
        '1' => Ok(Extension::Extended(renewal.ttl.as_duration())),
        // Left out by the server, so that the hold does not delay the others of its request.
        '2' => {
            let reason = "another transaction has locked the row of the hold";
            let context = "the hold was not extended";
            Err(BackendError::transient(BACKEND, Outcome::NotApplied, context, reason))
        }
        _ => Ok(Extension::Lost),
    };
    answers.chars().zip(renewals).map(extension).collect()
}

/// Reads which holds of a batch were ended.
pub(super) fn released_together<Q>(
    holds: &[Q],
    rows: &[PgRow],
) -> Result<Vec<Option<Release>>, BackendError> {
    answered_together(holds, rows, |_, _| Ok(Release::Released))
}

/// Reads which claims of a batch were granted: the part of the call, token, now.
pub(super) fn granted_together(
    claims: &[Claim],
    rows: &[PgRow],
) -> Result<Vec<Option<Attempt>>, BackendError> {
    const WHAT: &str = "the answer to an acquire of many";
    answered_together(claims, rows, |claim, row| {
        let (token, at) = (fencing_token(get(row, 1, WHAT)?)?, micros(get(row, 2, WHAT)?));
        Ok(Attempt::Granted(Grant::new(token, claim.ttl.as_duration()).at(ServerTime(at))))
    })
}

/// Reads the answers to some questions of a call. A row begins with the number of its question, from one.
fn answered_together<Q, A: Clone>(
    questions: &[Q],
    rows: &[PgRow],
    read: impl Fn(&Q, &PgRow) -> Result<A, BackendError>,
) -> Result<Vec<Option<A>>, BackendError> {
    const WHAT: &str = "the answer to requests together";
    let mut answers = vec![None; questions.len()];
    for row in rows {
        let part = get::<i64>(row, 0, WHAT)?.checked_sub(1);
        let at =
            part.and_then(|part| usize::try_from(part).ok()).ok_or_else(|| unreadable(WHAT))?;
        let (Some(question), Some(answer)) = (questions.get(at), answers.get_mut(at)) else {
            return Err(unreadable(WHAT));
        };
        *answer = Some(read(question, row)?);
    }
    Ok(answers)
}

/// Name of the answer to a reservation in errors.
pub(crate) const RESERVATION: &str = "the answer to a reservation";

/// Reads the answer to a reservation: the first token, and how many there are.
pub(crate) fn reserved(row: &PgRow) -> Result<Option<TokenRange>, BackendError> {
    let count: i64 = get(row, 1, RESERVATION)?;
    let Some(count) = u32::try_from(count).ok().filter(|count| *count > 0) else { return Ok(None) };
    let first = fencing_token(get(row, 0, RESERVATION)?)?;
    TokenRange::new(first, count).map(Some).map_err(|_| unreadable(RESERVATION))
}

/// Name of an answer about a run in errors.
pub(crate) const RECORD: &str = "the record of a run";

/// Reads the answer to a record: true if the run was recorded.
pub(crate) fn recording(row: &PgRow) -> Result<Recording, BackendError> {
    Ok(if get(row, 0, RECORD)? { Recording::Recorded } else { Recording::Lost })
}

/// Reads a run that is recorded: its occurrence and its token.
pub(crate) fn run(row: &PgRow) -> Result<RecordedRun, BackendError> {
    let occurrence = Occurrence::new(get::<String>(row, 0, RECORD)?);
    let occurrence = occurrence.map_err(|_| unreadable(RECORD))?;
    Ok(RecordedRun::new(occurrence, fencing_token(get(row, 1, RECORD)?)?))
}

const STATE: &str = "the state of a lock";

/// Reads a listing, which has a row for each hold: the columns of [`holder`], the number of waiters, and each number of
/// permits that they count. The rows of a lock follow each other.
///
/// C49: a name that no client can have written costs the others nothing, and is told.
pub(crate) fn states(rows: &[PgRow]) -> Result<Vec<LockState>, BackendError> {
    let (mut states, mut foreign) = (Vec::<LockState>::new(), Vec::new());
    for row in rows {
        let name = get::<String>(row, 0, STATE)?;
        let Ok(name) = LockName::new(&*name) else {
            foreign.push(BackendError::refusal(BACKEND, format!("{name:?} is no name of a lock")));
            continue;
        };
        match states.last_mut().filter(|state| state.name == name) {
            Some(state) => state.holders.extend(holder(row)?),
            None => {
                let waiters = u64::try_from(get::<i64>(row, 8, STATE)?).ok();
                let counted = get::<Option<Vec<i64>>>(row, 9, STATE)?.unwrap_or_default();
                let counted = counted.into_iter().map(|number| small(number, STATE));
                let counted = counted.collect::<Result<Vec<_>, _>>()?;
                states.push(LockState::new(name, holder(row)?, waiters).counted_as(counted));
            }
        }
    }
    match foreign.as_slice() {
        [] => Ok(states),
        foreign => Err(BackendError::incomplete(BACKEND, states, foreign)),
    }
}

/// Reads a hold: name, owner, token, time left, label, time of the grant, number of permits of its lock, and its
/// slots.
pub(crate) fn holder(row: &PgRow) -> Result<Option<Holder>, BackendError> {
    let Some(owner) = get::<Option<String>>(row, 1, STATE)? else { return Ok(None) };
    let mut holder = Holder::foreign(get::<Option<i64>>(row, 3, STATE)?.map(micros));
    holder.owner = Some(owner);
    holder.token = Some(fencing_token(get(row, 2, STATE)?)?);
    holder.label = Label::new(get::<String>(row, 4, STATE)?).unwrap_or_default();
    // C45: the server's time of the grant.
    holder.since = get::<Option<i64>>(row, 5, STATE)?.map(|since| UNIX_EPOCH + micros(since));
    let slots = slots(row, 7)?;
    let kind = match get::<Option<i64>>(row, 6, STATE)? {
        None => Kind::Exclusive,
        Some(0) => Kind::Shared,
        Some(of) => {
            let taken = u16::try_from(slots.as_slice().len()).map_err(|_| unreadable(STATE))?;
            let permits = Permits::new(taken, small(of, STATE)?);
            Kind::OneOf(permits.map_err(|_| unreadable(STATE))?)
        }
    };
    Ok(Some(holder.of_kind(kind, slots)))
}

/// Reads a holder that was evicted: the columns of a holder, and the last token that was reserved for it.
pub(crate) fn evicted(row: &PgRow) -> Result<Option<Holder>, BackendError> {
    let last: Option<i64> = get(row, 8, "the answer to an eviction")?;
    let last = last.map(fencing_token).transpose()?;
    Ok(holder(row)?.map(|holder| holder.reserved(last)))
}

/// Returns the slots in a column of a row; none if it is null.
fn slots(row: &PgRow, column: usize) -> Result<Slots, BackendError> {
    const WHAT: &str = "the slots of a hold";
    let slots: Option<Vec<i64>> = get(row, column, WHAT)?;
    let slots = slots.unwrap_or_default().into_iter().map(|slot| small(slot, WHAT));
    Ok(Slots::new(slots.collect::<Result<Vec<_>, _>>()?))
}

/// Converts a number of permits, or a slot.
fn small(number: i64, what: &'static str) -> Result<u16, BackendError> {
    u16::try_from(number).map_err(|_| unreadable(what))
}
