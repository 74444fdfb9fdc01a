use super::*;
use crate::engine::options::ClientOptions;
use crate::model::{FencingToken, LockRequest, Slots, SystemClock};

#[test]
fn c12_a_renewal_has_a_sixth_of_the_ttl_or_a_third_of_what_is_left() {
    let limit_of = |granted_ms| {
        let request = LockRequest::new("a").ttl(Duration::from_secs(30));
        let claim = request.claim().expect("a good claim");
        let (token, granted) =
            (FencingToken::new(1).expect("a token"), Duration::from_millis(granted_ms));
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
        let (clock, drift) = (Arc::new(SystemClock), Drift::default());
        Hold::new(lease, clock, drift, Arc::new(telemetry)).attempt_limit().as_millis()
    };
    assert_eq!(limit_of(30_000), 5_000);
    let short = limit_of(1_800);
    assert!((590..=600).contains(&short), "a grant that was pushed: {short} ms");
}
