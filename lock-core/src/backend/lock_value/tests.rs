//! Rules that the histories of the memory backend do not reach.

use super::*;
use crate::model::LockRequest;

/// C38: a hold that ends leaves room, also if an earlier holder has more time left.
#[test]
fn c38_a_waiter_is_told_of_the_hold_that_ends_first() {
    let (mut lock, at) = (LockValue::default(), ClockReading::exact(Duration::ZERO));
    for seconds in [60, 1, 30] {
        let request = LockRequest::new("a").shared().ttl(Duration::from_secs(seconds));
        let claim = request.claim().expect("a good claim");
        lock.acquire((&claim).into(), None, at).expect("a token");
    }
    assert_eq!(lock.contention(at).ttl_left, Some(Duration::from_secs(1)));
}
