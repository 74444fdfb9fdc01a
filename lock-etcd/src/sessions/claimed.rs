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
    /// Nobody believes in it any more from then on.
    pub(crate) until: Moment,
    /// The revision in which its key was made, once it holds. None while it waits.
    pub(crate) revision: Option<i64>,
    /// True if it holds, and its value may not say so yet: it came by its place in a queue, or from another client.
    pub(crate) is_unclaimed: bool,
    /// Session that its key is on, or goes to with its next renewal.
    pub(crate) session: Arc<Session>,
    /// Sessions that its key may be on until it is seen on `session`: those that it was to leave for another TTL.
    pub(crate) earlier: Vec<Arc<Session>>,
}

/// Deletion of a claim, because nobody believed in it any more. From its sending on the claim takes nothing.
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

/// A claim that nobody believes in any more, of which the key is to be deleted.
pub(crate) struct Expired {
    pub(crate) asked: Asked,
    /// Of one that another client has made, which may use the key again.
    pub(crate) revision: Option<i64>,
    pub(crate) sessions: Vec<Arc<Session>>,
}

impl Claimed {
    /// A claim of this client, which is not asked for yet.
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

    /// Its key goes to this session. Until it is seen there, it may be on the one before.
    pub(crate) fn goes_to(&mut self, session: &Arc<Session>) {
        let before = mem::replace(&mut self.session, session.clone());
        self.earlier.retain(|earlier| !earlier.is_gone() && earlier.id() != session.id());
        if before.id() != session.id() && !before.is_gone() {
            self.earlier.push(before);
        }
    }

    /// All sessions that its key may be on.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = &Arc<Session>> {
        self.earlier.iter().chain([&self.session])
    }

    pub(crate) fn lasts_until(&mut self, until: Moment) {
        // C10: never shortened, since answers may overtake each other.
        if until.has_reached(self.until) {
            self.until = until;
        }
    }

    /// Returns true if it is the hold that was made in this revision, as far as it is known.
    pub(crate) fn was_made_in(&self, revision: i64) -> bool {
        self.revision == Some(revision)
    }

    /// Returns true if its deletion is due: it is over, and no answer to one may come.
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

    /// Returns true if requests by this key may take something for it.
    pub(crate) fn may_take_by(&self, key: &Arc<str>) -> bool {
        Arc::ptr_eq(&self.key, key) && self.deletion == Deletion::NotDue
    }

    pub(crate) fn asks(&mut self, owner: OwnerId) -> Asked {
        self.unanswered += 1;
        Asked { owner, key: self.key.clone() }
    }

    /// The deletion counts from now on: the claim may be forgotten before it is sent.
    pub(crate) fn expired(&mut self, owner: OwnerId) -> Expired {
        self.deletion = Deletion::Sent;
        let revision = self.revision.filter(|_| !self.is_own);
        let sessions = self.sessions().cloned().collect();
        Expired { asked: self.asks(owner), revision, sessions }
    }
}
