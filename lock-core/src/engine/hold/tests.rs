use super::*;
use crate::engine::options::ClientOptions;
use crate::model::{FencingToken, LockRequest, Slots, SystemClock};

const TTL: Duration = Duration::from_secs(30);

fn hold(granted: Duration) -> Hold {
    let claim = LockRequest::new("a").ttl(TTL).claim().expect("a good claim");
    let token = FencingToken::new(1).expect("a token");
    let lease = Lease {
        name: claim.name,
        owner: claim.owner,
        token,
        granted_as: token,
        asked: claim.ttl,
        granted,
        deadline: SystemClock.now().after(granted),
        kind: claim.kind,
        slots: Slots::NONE,
        unresolved: false,
        at_least: None,
    };
    let telemetry = Telemetry::new("test", &ClientOptions::new());
    Hold::new(
        lease,
        Arc::new(SystemClock),
        Drift::default(),
        Arc::new(telemetry),
        Process::current(),
    )
}

#[test]
fn c12_a_renewal_has_a_sixth_of_the_ttl_or_a_third_of_what_is_left() {
    let limit_of = |granted| hold(granted).attempt_limit().as_millis();
    assert_eq!(limit_of(TTL), 5_000);
    let short = limit_of(Duration::from_millis(1_800));
    assert!((590..=600).contains(&short), "a grant that was pushed: {short} ms");
}

#[tokio::test]
async fn c41_a_renewal_in_flight_prolongs_no_run_beyond_its_bound() {
    let (hold, bound) = (hold(TTL), Duration::from_secs(1));
    let (ttl, span) = (hold.lease().asked, Ttl::new(TTL * 100).expect("a good TTL"));
    hold.renew_for(bound);
    hold.extending(span);
    let renewal = hold.begin_renewal();
    let asked = SystemClock.now();
    hold.extended(asked, span, span.as_duration());
    hold.keep_out(span, ttl);
    hold.renewed(asked, renewal.ttl, span.as_duration());
    let left = SystemClock.now().until(hold.lease().deadline);
    assert!(left <= bound + TTL, "{left:?}");
}
