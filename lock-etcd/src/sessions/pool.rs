//! The sessions of one client, which its claims share.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{Moment, Ttl};

use crate::sessions::session::Session;
use crate::wire::server::Server;

/// Margin of a session's lease over the TTL of its claims. So a claim finds its whole TTL on the session, although
/// the session was not renewed at that very moment.
const MARGIN: Duration = Duration::from_secs(2);

/// Most claims on a session. A cluster deletes all keys of a lease that ends in one step, and writes nothing else
/// meanwhile: 100,000 keys take 2 s. All keys with the longest names also fit in one answer.
const MOST_CLAIMS: usize = 2_000;

#[derive(Default)]
pub(crate) struct SessionPool {
    renewed: Vec<Arc<Session>>,
    /// Sessions that nobody renews: those of holds that were made to last longer (C41).
    unrenewed: Vec<Arc<Session>>,
}

impl SessionPool {
    /// Returns a session for this TTL that has room for a claim. A session that the server has ended is replaced.
    pub(crate) fn for_ttl(&mut self, server: &Arc<Server>, ttl: Ttl) -> Arc<Session> {
        let seconds = whole_seconds(ttl.as_duration() + MARGIN);
        self.renewed.retain(|session| !session.is_gone());
        // Each claim has a reference to its session, and each request of a claim has another.
        let has_room = |session: &&Arc<Session>| {
            session.ttl().as_secs() == seconds.unsigned_abs()
                && Arc::strong_count(session) <= MOST_CLAIMS
        };
        if let Some(session) = self.renewed.iter().find(has_room) {
            return session.clone();
        }
        let session = Session::new(server.clone(), seconds);
        self.renewed.push(session.clone());
        session
    }

    /// Returns the session for a renewed claim, which is on this one. A claim stays on its session while that one
    /// outlasts the TTL (C10).
    ///
    /// A hold that is made to last longer moves to a separate session, which nobody renews (C41): if this process
    /// dies, the hold ends by that session's first TTL. The first renewal that lasts longer than that session moves
    /// the hold to the common session of its TTL.
    pub(crate) fn for_renewal(
        &mut self,
        server: &Arc<Server>,
        on: &Arc<Session>,
        is_hold: bool,
        ttl: Ttl,
        now: Moment,
    ) -> Arc<Session> {
        let seconds = whole_seconds(ttl.as_duration() + MARGIN);
        let is_longer = on.ttl().as_secs() < seconds.unsigned_abs();
        if is_longer && is_hold {
            return self.separate(server, ttl.as_duration() + MARGIN);
        }
        // The lease may still be in request, with an unknown end.
        let outlasts = !on.is_open() || on.left(now) >= whole(ttl);
        if outlasts && !is_longer { on.clone() } else { self.for_ttl(server, ttl) }
    }

    /// Returns a new session that nobody renews.
    pub(crate) fn separate(&mut self, server: &Arc<Server>, span: Duration) -> Arc<Session> {
        let session = Session::new(server.clone(), whole_seconds(span));
        self.unrenewed.push(session.clone());
        session
    }

    /// Returns the sessions that are renewed.
    pub(crate) fn renewed(&self) -> impl Iterator<Item = &Arc<Session>> {
        self.renewed.iter()
    }

    /// Returns true if there are sessions that nobody renews.
    pub(crate) fn has_unrenewed(&self) -> bool {
        !self.unrenewed.is_empty()
    }

    /// Returns true if there are no sessions.
    pub(crate) fn is_empty(&self) -> bool {
        self.renewed.is_empty() && self.unrenewed.is_empty()
    }

    /// Removes the sessions that are not `needed`: those that nobody renews, and those that `may_go`.
    pub(crate) fn take_unused(
        &mut self,
        needed: &HashSet<i64>,
        may_go: impl Fn(&Session) -> bool,
    ) -> Vec<Arc<Session>> {
        let is_unused = |session: &Session| !needed.contains(&session.id());
        let gone = self.renewed.extract_if(.., |session| is_unused(session) && may_go(session));
        let ended = self.unrenewed.extract_if(.., |session| is_unused(session));
        gone.chain(ended).collect()
    }

    /// Takes back a session that could not be ended. It is not renewed any more.
    pub(crate) fn put_back(&mut self, session: Arc<Session>) {
        self.unrenewed.push(session);
    }
}

/// Returns a span in whole seconds, rounded up.
pub(crate) fn whole_seconds(span: Duration) -> i64 {
    span.as_secs().cast_signed() + i64::from(span.subsec_nanos() > 0)
}

/// Returns a TTL in whole seconds, rounded up (C4).
pub(crate) fn whole(ttl: Ttl) -> Duration {
    Duration::from_secs(whole_seconds(ttl.as_duration()).unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c28_the_claims_of_a_dead_client_end_in_steps() {
        let (mut pool, ttl) = (SessionPool::default(), Ttl::default());
        let server = Server::nowhere();
        let full: Vec<_> = (0..MOST_CLAIMS).map(|_| pool.for_ttl(&server, ttl)).collect();
        assert!(full.iter().all(|session| session.id() == full[0].id()));
        let next = pool.for_ttl(&server, ttl);
        assert_ne!(next.id(), full[0].id());
        drop(next);
        assert_eq!(pool.take_unused(&[full[0].id()].into(), |_| true).len(), 1);
        let first = full[0].id();
        drop(full);
        assert_eq!(pool.for_ttl(&server, ttl).id(), first, "it has room again");
    }
}
