//! The verdict on one lock, for operators (C33, C49).

use crate::model::{Finding, Holder, LockError, LockName, LockState};

const CHECK: &str = "lock";

/// Judges a lock from its state.
///
/// # Errors
/// The error of the inspection, unless it is a verdict: that the name is in use for something else.
pub(crate) fn findings(looked: Result<LockState, LockError>) -> Result<Vec<Finding>, LockError> {
    match looked {
        Ok(state) => {
            let held = match state.holder() {
                Some(holder) => of_holder(&state.name, holder),
                None => Finding::good(CHECK, format!("lock \"{}\" is free", state.name)),
            };
            Ok([held].into_iter().chain(of_numbers(&state)).collect())
        }
        Err(LockError::NotALock { name, found }) => Ok(vec![of_no_lock(&name, &found)]),
        Err(error) => Err(error),
    }
}

/// C33: two numbers of permits exclude each other, so a pod that counts wrongly stops all others for its turn.
fn of_numbers(state: &LockState) -> Option<Finding> {
    let numbers: Vec<String> = state.permits.iter().map(u16::to_string).collect();
    let seen = format!(
        "holders and waiters of lock \"{}\" count different numbers of permits ({}): those of one number wait \
         until those of the other are gone",
        state.name,
        numbers.join(" and ")
    );
    let remedy = "use the same number everywhere; `inspect` shows who holds. In a deploy that changes the number this \
                  passes by itself";
    (numbers.len() > 1).then(|| Finding::risk(CHECK, seen, remedy))
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
    use crate::model::{BackendError, Health, Kind, Label, OwnerId, Permits, Slots};

    fn name() -> LockName {
        LockName::new("stock").expect("a name")
    }

    fn only(looked: Result<LockState, LockError>) -> Finding {
        let found = findings(looked).expect("a finding");
        let [finding] = <[Finding; 1]>::try_from(found).expect("one finding");
        finding
    }

    fn held_by(holder: Option<Holder>) -> Finding {
        only(Ok(LockState::new(name(), holder, None)))
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
        let no_lock = only(looked);
        assert!(no_lock.health == Health::Risk && no_lock.seen.contains("type list"), "{no_lock}");
    }

    #[test]
    fn a_look_that_failed_is_no_finding() {
        let error = BackendError::no_answer("redis", Duration::from_secs(1));
        assert!(findings(Err(LockError::backend("inspect", Some(&name()), error))).is_err());
    }

    #[test]
    fn c33_two_numbers_of_permits_at_one_lock_are_a_risk() {
        let kind = Kind::OneOf(Permits::new(1, 3).expect("permits"));
        let token = "7".parse().expect("a token");
        let ours = Holder::ours(OwnerId::random(), token, Duration::from_secs(1), Label::default());
        let held = LockState::new(name(), [ours.of_kind(kind, Slots::new([0]))], Some(2));
        let agreed = held.clone().counted_as([3, 0]);
        assert_eq!(only(Ok(agreed)).health, Health::Good);
        let found = findings(Ok(held.counted_as([3, 5]))).expect("findings");
        let seen = |finding: &Finding| finding.seen.contains("(3 and 5)");
        assert!(
            found.iter().any(|finding| finding.health == Health::Risk && seen(finding)),
            "{found:?}"
        );
    }
}
