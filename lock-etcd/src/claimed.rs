//! What this client knows of one of its claims.
//!
//! ```text
//!   begun ──▶ waits ──▶ holds ──▶ released, withdrawn, lost: forgotten
//!     └─────────┴─────────┴─────▶ over by itself: its deletion is sent, until an answer comes ──▶ forgotten
//! ```

use std::sync::Arc;
use std::time::Duration;

use lock_core::{Moment, OwnerId};

use crate::session::Session;

/// One claim, from before its first request until it is over.
pub(crate) struct Claimed {
    pub(crate) key: Arc<str>,
    /// Whether it was made by this client. Who made it may use its key again.
    pub(crate) is_own: bool,
    /// How many requests on its key have no answer.
    pub(crate) unanswered: u32,
    pub(crate) deletion: Deletion,
    pub(crate) ttl: Duration,
    /// Nobody believes in it any more from then on.
    pub(crate) until: Moment,
    /// The revision in which its key was made, once it holds.
    pub(crate) revision: Option<i64>,
    /// Where its key is, or goes with its next renewal, once it holds.
    pub(crate) hold: Arc<Session>,
    /// Sessions that its key may be on until it is seen on `hold`: the queue's, and those that it was to leave for
    /// another TTL.
    pub(crate) earlier: Vec<Arc<Session>>,
}

/// Whether the deletion of a claim was sent, because nobody believed in it any more. From then on the claim takes
/// nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deletion {
    NotDue,
    /// An answer may come.
    Sent,
    /// It is sent again. The first one may come late.
    Unanswered,
}

/// A request on the key of a claim, from before it is sent.
#[must_use = "without an answer the key is not used again"]
pub(crate) struct Asked {
    pub(crate) owner: OwnerId,
    pub(crate) key: Arc<str>,
}

/// A claim that nobody believes in any more, of which the key is to be deleted.
pub(crate) struct Expired {
    pub(crate) asked: Asked,
    /// Of one that another client has made, which may use the key again.
    pub(crate) revision: Option<i64>,
    pub(crate) sessions: Vec<Arc<Session>>,
}

impl Claimed {
    pub(crate) fn lasts_until(&mut self, until: Moment) {
        // C10: never shortened, since answers may overtake each other.
        if until.has_reached(self.until) {
            self.until = until;
        }
    }

    /// Its key may be on this session until it is seen on that for holds.
    pub(crate) fn may_be_on(&mut self, session: Arc<Session>) {
        self.earlier.retain(|earlier| !earlier.is_gone() && earlier.id() != session.id());
        self.earlier.push(session);
    }

    /// Whether it is the hold that was made in this revision, as far as it is known.
    pub(crate) fn was_made_in(&self, revision: i64) -> bool {
        let is_new = self.earlier.is_empty() && self.unanswered == 0;
        self.revision.map_or(is_new, |known| known == revision)
    }

    /// Whether its deletion is to be sent: it is over, and no answer to one may come.
    pub(crate) fn is_to_be_deleted(&self, now: Moment) -> bool {
        match self.deletion {
            Deletion::NotDue => now.has_reached(self.until),
            Deletion::Sent => false,
            Deletion::Unanswered => true,
        }
    }

    /// An answer to its deletion comes no more, if one was sent.
    pub(crate) fn deletion_has_no_answer(&mut self) {
        if self.deletion == Deletion::Sent {
            self.deletion = Deletion::Unanswered;
        }
    }

    /// Whether requests by this key may take something for it.
    pub(crate) fn may_take_by(&self, key: &Arc<str>) -> bool {
        Arc::ptr_eq(&self.key, key) && self.deletion == Deletion::NotDue
    }

    pub(crate) fn asks(&mut self, owner: OwnerId) -> Asked {
        self.unanswered += 1;
        Asked { owner, key: self.key.clone() }
    }

    /// The deletion counts from now on: the claim may be forgotten before it is sent.
    pub(crate) fn expired(&mut self, owner: OwnerId) -> Expired {
        let sessions = self.earlier.iter().cloned().chain([self.hold.clone()]).collect();
        self.deletion = Deletion::Sent;
        let revision = self.revision.filter(|_| !self.is_own);
        Expired { asked: self.asks(owner), revision, sessions }
    }
}
