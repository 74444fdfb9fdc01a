//! The verdict on one lock, for operators (C49).

use crate::model::{Finding, Holder, LockError, LockName, LockState};

const CHECK: &str = "lock";

/// Judges a lock from its state.
///
/// # Errors
/// The error of the inspection, unless it is a verdict: that the name is in use for something else.
pub(crate) fn finding(looked: Result<LockState, LockError>) -> Result<Finding, LockError> {
    match looked {
        Ok(state) => Ok(match state.holder() {
            Some(holder) => of_holder(&state.name, holder),
            None => Finding::good(CHECK, format!("lock \"{}\" is free", state.name)),
        }),
        Err(LockError::NotALock { name, found }) => Ok(of_no_lock(&name, &found)),
        Err(error) => Err(error),
    }
}

fn of_holder(name: &LockName, holder: &Holder) -> Finding {
    let lock = format!("lock \"{name}\" is held");
    match (&holder.token, holder.ttl_left) {
        (Some(token), _) => Finding::good(CHECK, format!("{lock} under token {token}")),
        (None, Some(left)) => Finding::good(
            CHECK,
            format!("{lock} by a client that is not ours, for {left:.1?} more"),
        ),
        (None, None) => Finding::risk(
            CHECK,
            format!("{lock} by a key without a TTL that is not ours: it may stay for ever"),
            "evict it if nobody needs it, or choose another name or a prefix",
        ),
    }
}

fn of_no_lock(name: &LockName, found: &str) -> Finding {
    let seen = format!(
        "{found} is in the place of lock \"{name}\", and no client of locks has written it: nobody can \
         acquire the lock"
    );
    Finding::risk(
        CHECK,
        seen,
        "remove it if nobody needs it, or choose another name or a prefix (`?prefix=` in the URL)",
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::{BackendError, Health, Label, OwnerId};

    fn name() -> LockName {
        LockName::new("stock").expect("a name")
    }

    fn held_by(holder: Option<Holder>) -> Finding {
        finding(Ok(LockState::new(name(), holder, None))).expect("a finding")
    }

    #[test]
    fn c49_what_keeps_a_lock_from_everybody_is_a_risk() {
        let (token, second) = ("7".parse().expect("a token"), Duration::from_secs(1));
        let ours = Holder::ours(OwnerId::random(), token, second, Label::default());
        for holder in [None, Some(ours), Some(Holder::foreign(Some(second)))] {
            assert_eq!(held_by(holder.clone()).health, Health::Good, "{holder:?}");
        }
        let stuck = held_by(Some(Holder::foreign(None)));
        assert!(stuck.health == Health::Risk && stuck.seen.contains("without a TTL"), "{stuck}");
        let error = BackendError::not_a_lock("redis", "a key of type list");
        let looked = Err(LockError::backend("inspect", Some(&name()), error));
        let no_lock = finding(looked).expect("a finding");
        assert!(no_lock.health == Health::Risk && no_lock.seen.contains("type list"), "{no_lock}");
    }

    #[test]
    fn a_look_that_failed_is_no_finding() {
        let error = BackendError::no_answer("redis", Duration::from_secs(1));
        assert!(finding(Err(LockError::backend("inspect", Some(&name()), error))).is_err());
    }
}
