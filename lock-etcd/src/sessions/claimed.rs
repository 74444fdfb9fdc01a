//! This client's knowledge of one of its claims.
//!
//! ```text
//!   begun ──▶ waits ──▶ holds ──▶ released, withdrawn, lost: forgotten
//!     └─────────┴─────────┴─────▶ over by itself: its deletion is sent, until an answer comes ──▶ forgotten
//! ```

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{Moment, OwnerId};

use crate::sessions::session::Session;

/// One claim, from before its first request until it is over.
pub(crate) struct Claimed {
    pub(crate) key: Arc<str>,
    /// True if it was made by this client, which may use its key again.
    pub(crate) is_own: bool,
    /// Number of requests on its key without an answer.
    pub(crate) unanswered: u32,
    pub(crate) deletion: Deletion,
    pub(crate) ttl: Duration,
    /// The time from which on nobody believes in it any more.
    pub(crate) until: Moment,
    /// The revision in which its key was made, once it holds. `None` while it waits.
    pub(crate) revision: Option<i64>,
    /// True if it holds, but its value may not say so yet: it came from a place in a queue, or from another client.
    pub(crate) is_unclaimed: bool,
    /// Session of its key, or the session to which its next renewal moves the key.
    pub(crate) session: Arc<Session>,
    /// Sessions that may still have its key until it is seen on `session`: those that it left for another TTL.
    pub(crate) earlier: Vec<Arc<Session>>,
}

/// Deletion of a claim in which nobody believed any more. Once the deletion is sent, the claim takes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deletion {
    NotDue,
    /// An answer may come.
    Sent,
    /// The deletion is sent again. The first one may come late.
    Unanswered,
}

/// A request on the key of a claim, from before it is sent.
#[must_use = "without an answer the key is not used again"]
pub(crate) struct Asked {
    pub(crate) owner: OwnerId,
    pub(crate) key: Arc<str>,
}

/// A claim in which nobody believes any more, whose key must be deleted.
pub(crate) struct Expired {
    pub(crate) asked: Asked,
    /// Set for a claim that another client has made, which may reuse the key.
    pub(crate) revision: Option<i64>,
    pub(crate) sessions: Vec<Arc<Session>>,
}

impl Claimed {
    /// A claim of this client before its first request.
    pub(crate) fn new(key: Arc<str>, ttl: Duration, until: Moment, session: Arc<Session>) -> Self {
        let (unanswered, deletion, revision) = (0, Deletion::NotDue, None);
        let (is_unclaimed, earlier) = (false, Vec::new());
        Self {
            key,
            is_own: true,
            unanswered,
            deletion,
            ttl,
            until,
            revision,
            is_unclaimed,
            session,
            earlier,
        }
    }

    /// A hold that another client has made.
    pub(crate) fn found(
        key: Arc<str>,
        ttl: Duration,
        until: Moment,
        revision: i64,
        session: Arc<Session>,
    ) -> Self {
        let new = Self::new(key, ttl, until, session);
        Self { is_own: false, revision: Some(revision), is_unclaimed: true, ..new }
    }

    /// Moves its key to this session. Until the key is seen there, it may be on the former one.
    pub(crate) fn goes_to(&mut self, session: &Arc<Session>) {
        let before = mem::replace(&mut self.session, session.clone());
        self.earlier.retain(|earlier| !earlier.is_gone() && earlier.id() != session.id());
        if before.id() != session.id() && !before.is_gone() {
            self.earlier.push(before);
        }
    }

    /// Returns all sessions that may have its key.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = &Arc<Session>> {
        self.earlier.iter().chain([&self.session])
    }

    pub(crate) fn lasts_until(&mut self, until: Moment) {
        // C10: never shortened, since answers may overtake each other.
        if until.has_reached(self.until) {
            self.until = until;
        }
    }

    /// Returns true if it is the hold that was made in this revision, as far as is known.
    pub(crate) fn was_made_in(&self, revision: i64) -> bool {
        self.revision == Some(revision)
    }

    /// Returns true if its deletion is due: it is over, and no answer to an earlier deletion may come.
    pub(crate) fn is_to_be_deleted(&self, now: Moment) -> bool {
        match self.deletion {
            Deletion::NotDue => now.has_reached(self.until),
            Deletion::Sent => false,
            Deletion::Unanswered => true,
        }
    }

    /// Notes that no answer to its deletion will come, if one was sent.
    pub(crate) fn deletion_has_no_answer(&mut self) {
        if self.deletion == Deletion::Sent {
            self.deletion = Deletion::Unanswered;
        }
    }

    /// Returns true if requests with this key may acquire something for it.
    pub(crate) fn may_take_by(&self, key: &Arc<str>) -> bool {
        Arc::ptr_eq(&self.key, key) && self.deletion == Deletion::NotDue
    }

    pub(crate) fn asks(&mut self, owner: OwnerId) -> Asked {
        self.unanswered += 1;
        Asked { owner, key: self.key.clone() }
    }

    /// Notes the deletion, which counts from now on: the claim may be forgotten before it is sent.
    pub(crate) fn expired(&mut self, owner: OwnerId) -> Expired {
        self.deletion = Deletion::Sent;
        let revision = self.revision.filter(|_| !self.is_own);
        let sessions = self.sessions().cloned().collect();
        Expired { asked: self.asks(owner), revision, sessions }
    }
}
