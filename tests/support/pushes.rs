//! Pushed grants, and the server's time of each.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold::core::backend::{Attempt, WaiterEvent, WaiterHandle};
use leasehold::{DistributedLock, LockRequest};

use super::fresh_name;

/// P2: a grant that was pushed before a "busy" does not count as a later one, even if the server's clock stepped
/// back since. `set_newest` makes a token the newest of a lock.
pub(crate) async fn busy_is_told_after_the_newest_grant(
    lock: &dyn DistributedLock,
    set_newest: impl Fn(&str, u128),
) {
    for request in [LockRequest::new(fresh_name()), LockRequest::new(fresh_name()).shared()] {
        let an_hour_on = SystemTime::now() + Duration::from_secs(3600);
        let holder = request.claim().expect("a claim");
        let name = holder.name.as_str();
        set_newest(name, an_hour_on.duration_since(UNIX_EPOCH).expect("after 1970").as_micros());
        let Ok(Attempt::Granted(grant)) = lock.acquire(&holder, None).await else {
            panic!("{name} is free");
        };
        let next = LockRequest::new(name).claim().expect("a claim");
        let (waiter, events) = WaiterHandle::channel();
        let Ok(Attempt::Busy(seen)) = lock.acquire(&next, Some(&waiter)).await else {
            panic!("{name} is held");
        };
        let busy = seen.at.expect("the server's time");
        assert!(busy.0.as_micros() > grant.token.get().into(), "{busy:?} is not after {grant:?}");
        lock.release(&holder.name, holder.owner).await.expect("an answer");
        let WaiterEvent::Granted(pushed) = events.next().await else { panic!("no grant") };
        assert!(pushed.at.is_some_and(|at| at >= busy), "{pushed:?} is before {busy:?}");
    }
}
