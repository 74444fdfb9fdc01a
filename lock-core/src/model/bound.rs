//! The bound of a hold that is not renewed for ever.

use super::{Moment, Ttl};

/// The bound of a hold that is not renewed for ever (C13). It is that of the request that acquired the hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    /// The moment at which renewing stops.
    pub(crate) renew_until: Moment,
    /// The moment at which the hold is over: one TTL later.
    pub(crate) ends: Moment,
}

impl Bound {
    pub(crate) fn new(renew_until: Moment, ttl: Ttl) -> Self {
        Self { renew_until, ends: renew_until.after(ttl.as_duration()) }
    }

    /// Returns the TTL to ask for at `now`, so that the hold is over in time; `None` if too little is left.
    pub(crate) fn limit(self, ttl: Ttl, now: Moment) -> Option<Ttl> {
        Ttl::new(now.until(self.ends).min(ttl.as_duration())).ok()
    }
}
