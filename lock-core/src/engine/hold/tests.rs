use super::renewing::SHORT_GRANT_RENEWED_AFTER;
use super::*;
use crate::ClientOptions;
use crate::model::{Clock, FakeClock, FencingToken, LockRequest, Slots, SystemClock};

const TTL: Duration = Duration::from_secs(30);

pub(in crate::engine) fn hold_for(granted: Duration) -> Hold {
    hold_by(Arc::new(SystemClock), granted)
}

fn hold_by(clock: Arc<dyn Clock>, granted: Duration) -> Hold {
    let claim = LockRequest::new("a").ttl(TTL).claim().expect("a good claim");
    let token = FencingToken::new(1).expect("a token");
    let lease = Lease {
        name: claim.name,
        owner: claim.owner,
        token,
        granted_as: token,
        asked: claim.ttl,
        granted,
        deadline: clock.now().after(granted),
        kind: claim.kind,
        slots: Slots::NONE,
        unresolved: false,
        keeps_out_until: None,
        bound: None,
    };
    let client = ClientParts::new("test", ClientOptions::new().clock(clock));
    Hold::new(lease, Arc::new(client), None)
}

#[test]
fn c12_a_renewal_has_a_sixth_of_the_ttl_or_a_third_of_what_is_left() {
    let limit_of = |granted| hold_for(granted).attempt_limit().as_millis();
    assert_eq!(limit_of(TTL), 5_000);
    let short = limit_of(Duration::from_millis(1_800));
    assert!((590..=600).contains(&short), "a grant that was pushed: {short} ms");
}

#[tokio::test]
async fn c41_a_renewal_in_flight_prolongs_no_run_beyond_its_bound() {
    let (hold, bound) = (hold_for(TTL), Duration::from_secs(1));
    let (ttl, span) = (hold.lease().asked, Ttl::new(TTL * 100).expect("a good TTL"));
    hold.renew_for(bound);
    hold.extending(span);
    let renewal = hold.begin_renewal();
    let asked = SystemClock.now();
    hold.extended(asked, span, span.as_duration());
    hold.keep_out(span, ttl);
    hold.renewed(asked, renewal.ttl, span.as_duration());
    hold.extended(asked, span, span.as_duration());
    let left = SystemClock.now().until(hold.lease().deadline);
    assert!(left <= bound + TTL, "{left:?}");
}

/// C10: nobody has looked at the clock yet, and the answer to a renewal comes after the deadline.
#[test]
fn c10_an_answer_after_the_deadline_restores_nothing() {
    let clock = Arc::new(FakeClock::new());
    let hold = hold_by(clock.clone(), TTL);
    clock.advance(TTL - Duration::from_secs(1));
    let (asked, renewal) = (clock.now(), hold.begin_renewal());
    clock.advance(Duration::from_secs(2));
    hold.renewed(asked, renewal.ttl, TTL);
    assert_eq!(hold.lost_reason(), Some(LostReason::Expired));
}

/// C13: a bound that ends before the first renewal of a pushed grant takes nothing from the TTL.
#[test]
fn c13_a_short_grant_is_renewed_once_after_its_bound() {
    let clock = Arc::new(FakeClock::new());
    let hold = hold_by(clock.clone(), Duration::from_millis(1_800));
    hold.renew_for(Duration::from_millis(1));
    clock.advance(SHORT_GRANT_RENEWED_AFTER);
    assert_eq!(hold.duty(clock.now()), Duty::Renew);
    let (asked, renewal) = (clock.now(), hold.begin_renewal());
    hold.renewed(asked, renewal.ttl, TTL);
    assert!(hold.remaining() > TTL * 9 / 10, "{:?}", hold.remaining());
    clock.advance(TTL / 2);
    assert!(matches!(hold.duty(clock.now()), Duty::Watch(_)), "its bound is over");
}
