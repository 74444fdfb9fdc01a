//! How a name moves from the shard that had it to the one that has it: its lock there is closed for good.

use super::member::Member;
use crate::backend::answers::Attempt;
use crate::model::{
    BackendError, Claim, Contention, FencingToken, Holder, Kind, Label, LockName, LockState,
    OwnerId, Ttl, Whom,
};

/// What stands in place of a holder of a lock that is closed. The id of the shard that has the lock now may
/// follow.
const CLOSED: &str = "leasehold: moved to shard";

/// What it came to to close a lock.
pub(super) enum Closing {
    /// It is closed, and the last token that it granted is this one.
    Closed(FencingToken),
    /// It is held there still.
    Busy(Contention),
}

/// Closes the lock of a name on `former`, so that clients which look for it there are granted nothing any more.
///
/// ```text
///            the lock on the former shard           the lock on the new shard
///   free, or held by a client of the former list ─▶ nobody is granted it
///            │ it is free: closed under token c
///            ▼
///   closed for a day ─────────────────────────────▶ granted under c or a greater token
/// ```
///
/// A lock is closed by a hold that nobody has: a claim for the longest TTL, which is neither renewed nor
/// released. It takes effect in one step: a client that dies meanwhile leaves the lock open or closed.
pub(super) async fn close(
    former: &Member,
    name: &LockName,
    home: &Member,
) -> Result<Closing, BackendError> {
    if let Some(token) = closed_under(former, name).await? {
        return Ok(Closing::Closed(token));
    }
    match former.named(former.backend.try_acquire(&closing(name, home)?, None).await)? {
        Attempt::Granted(grant) => Ok(Closing::Closed(grant.token)),
        // Another client may have closed it just now.
        Attempt::Busy(seen) => {
            let closed = closed_under(former, name).await?;
            Ok(closed.map_or(Closing::Busy(seen), Closing::Closed))
        }
    }
}

/// The token under which the lock is closed, if it is.
async fn closed_under(
    former: &Member,
    name: &LockName,
) -> Result<Option<FencingToken>, BackendError> {
    let state = former.named(former.backend.inspect(name).await)?;
    Ok(state.holder().filter(|holder| closes(holder)).and_then(|holder| holder.token))
}

/// The claim that closes a lock.
fn closing(name: &LockName, home: &Member) -> Result<Claim, BackendError> {
    of_nobody(name, format!("{CLOSED} {}", home.id), Ttl::MAX)
}

/// The claim of a hold that nobody has.
pub(super) fn of_nobody(name: &LockName, label: String, ttl: Ttl) -> Result<Claim, BackendError> {
    let label =
        Label::new(label).map_err(|error| BackendError::refusal("shards", error.to_string()))?;
    let (name, owner, kind) = (name.clone(), OwnerId::random(), Kind::Exclusive);
    Ok(Claim { name, owner, ttl, label, kind })
}

/// Whether this is no holder, but what closes the lock.
fn closes(holder: &Holder) -> bool {
    holder.kind == Kind::Exclusive && holder.label.as_str().starts_with(CLOSED)
}

/// Whether the lock is closed.
pub(super) fn is_closed(state: &LockState) -> bool {
    state.holder().is_some_and(closes)
}

/// Ends the holds of `whom` on a shard that a name moves away from. What closes a lock is no hold, and stays.
pub(super) async fn evict(
    former: &Member,
    name: &LockName,
    whom: &Whom,
) -> Result<Vec<Holder>, BackendError> {
    let state = former.named(former.backend.inspect(name).await)?;
    let mut ended = Vec::new();
    for holder in state.holders.iter().filter(|holder| !closes(holder) && whom.includes(holder)) {
        let whom = holder.owner.clone().map_or(Whom::All, Whom::Owner);
        ended.extend(former.named(former.backend.evict(name, &whom).await)?);
    }
    Ok(ended)
}
