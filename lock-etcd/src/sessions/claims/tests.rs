use lock_core::LockRequest;

use super::*;

/// Start of the keys of all claims on the lock.
const RANGE: &str = "root/locks/a/";

fn claims() -> Claims {
    Claims::new(Server::nowhere(), Root::new("/root").expect("a root"))
}

fn claim() -> Claim {
    LockRequest::new("a").claim().expect("a good claim")
}

/// Returns a claim that is over, with the keeper's deletion in flight, and its former key.
fn over(claims: &Claims, claim: &Claim) -> (Asked, Arc<str>) {
    let (_, key) = claims.begin(claim);
    let later = SystemClock.now().after(Duration::from_secs(3600));
    let expired = claims.expired(later).pop().expect("a claim that is over");
    (expired.asked, key)
}

#[test]
fn c14_a_key_is_not_used_again_while_its_deletion_is_under_way() {
    let (claims, one) = (claims(), claim());
    let (asked, key) = over(&claims, &one);
    claims.forget(one.owner, RANGE);
    assert_ne!(claims.begin(&claim()).1, key);
    // The answer comes too late to count.
    claims.answered(&asked, &Ok(()));
    assert_ne!(claims.begin(&claim()).1, key);
}

#[test]
fn c19_a_claim_whose_deletion_is_under_way_is_not_granted() {
    let (claims, one) = (claims(), claim());
    let (asked, key) = over(&claims, &one);
    claims.begin(&one);
    assert!(!claims.holds(one.owner, &key, 7, false));
    assert!(claims.asks(one.owner, &key).is_err());
    // Without an answer the deletion is sent again, and may come late.
    assert!(claims.expired(SystemClock.now()).is_empty());
    claims.not_ended(&asked);
    assert!(!claims.holds(one.owner, &key, 7, false));
    assert_eq!(claims.expired(SystemClock.now()).len(), 1);
    // The claim begins anew with another key. The outcome of the first one grants it nothing.
    claims.give_up(one.owner);
    let (_, other) = claims.begin(&one);
    assert!(!claims.holds(one.owner, &key, 7, false));
    assert!(claims.holds(one.owner, &other, 7, false));
}

#[test]
fn c10_a_hold_whose_deletion_is_under_way_is_over() {
    let (claims, one) = (claims(), claim());
    let renewing = |key| claims.renewing(one.owner, one.ttl, 7, key).expect("its own key");
    let (_, key) = claims.begin(&one);
    assert!(renewing(&key).is_some());
    let (_asked, key) = over(&claims, &one);
    assert!(renewing(&key).is_none());
}

/// The renewal that moves the key may have no answer for longer than an unused session is kept.
#[test]
fn c08_a_session_is_kept_until_its_hold_is_seen_on_another() {
    let (claims, one) = (claims(), claim());
    let (first, key) = claims.begin(&one);
    claims.holds(one.owner, &key, 7, false);
    let longer = Ttl::new(Duration::from_secs(3600)).expect("a TTL");
    let second = claims.renewing(one.owner, longer, 7, &key).expect("its own key");
    assert_ne!(first.id(), second.expect("a hold").id());
    assert!(claims.take_unused(|_| true).is_empty());
    claims.settled(one.owner);
    let unused: Vec<_> = claims.take_unused(|_| true).iter().map(|session| session.id()).collect();
    assert_eq!(unused, [first.id()]);
}

/// A dead process renews nothing: so a session without renewals ends by the requested span.
#[test]
fn c41_a_hold_that_is_made_to_last_longer_is_on_a_session_that_nobody_renews() {
    let (claims, one) = (claims(), claim());
    let (first, key) = claims.begin(&one);
    claims.holds(one.owner, &key, 7, false);
    let longer = Ttl::new(Duration::from_secs(3600)).expect("a TTL");
    let renewed =
        |ttl| claims.renewing(one.owner, ttl, 7, &key).expect("its own key").expect("a hold").id();
    let second = renewed(longer);
    let is_kept = |id| claims.sessions().iter().any(|(session, _)| session.id() == id);
    assert!(is_kept(first.id()) && !is_kept(second), "the keeper renews what it keeps");
    // C10: a renewal for less does not end sooner.
    assert_eq!(renewed(one.ttl), second);
    // R1: once the hold is over, no claim needs it.
    claims.settled(one.owner);
    assert!(claims.take_unused(|_| false).is_empty());
    claims.forget(one.owner, RANGE);
    let unused: Vec<_> = claims.take_unused(|_| false).iter().map(|session| session.id()).collect();
    assert_eq!(unused, [second]);
}

#[test]
fn a_key_is_used_again_once_its_deletion_was_answered() {
    let (claims, one) = (claims(), claim());
    let (asked, key) = over(&claims, &one);
    claims.answered(&asked, &Ok(()));
    claims.forget(one.owner, RANGE);
    assert_eq!(claims.begin(&claim()).1, key);
}

#[test]
fn c14_nothing_is_asked_for_a_claim_that_lost_its_key() {
    let (claims, one) = (claims(), claim());
    let (_, key) = claims.begin(&one);
    let asked = claims.asks(one.owner, &key).expect("a claim");
    claims.forget(one.owner, RANGE);
    assert!(claims.asks(one.owner, &key).is_err());
    assert!(claims.ends(one.owner, RANGE).is_none());
    // The same claim is begun anew. The answer to an earlier request does not count for it.
    let (_, other) = claims.begin(&one);
    let _under_way = claims.asks(one.owner, &other).expect("a claim");
    claims.answered(&asked, &Ok(()));
    claims.forget(one.owner, RANGE);
    assert_ne!(claims.begin(&claim()).1, other);
}

/// C4, C41: a place lasts for the bound of waiters at least, and the hold that comes from it for its own TTL.
#[test]
fn c04_a_hold_with_a_short_ttl_ends_at_its_end() {
    let (claims, now) = (claims(), SystemClock.now());
    let one = LockRequest::new("a").ttl(Duration::from_secs(1)).claim().expect("a good claim");
    let (_, key) = claims.begin(&one);
    assert!(claims.expired(now.after(WAITER_LIVENESS / 2)).is_empty());
    assert!(claims.holds(one.owner, &key, 7, false));
    assert_eq!(claims.expired(now.after(WAITER_LIVENESS / 2)).len(), 1);
}
