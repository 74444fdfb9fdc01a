//! What this client knows of its claims that are not settled: the leases that their requests may
//! still give to a key, and the places that they have in a queue.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::{BackendError, FencingToken, OwnerId};
use tokio::time::Instant;

use crate::error::withdrawn;
use crate::lease_id::LeaseId;

/// How long a claim is remembered that nobody asks for: no request of it is under way any more.
const REMEMBERED_FOR: Duration = Duration::from_secs(60);

/// The claims of one client.
#[derive(Default)]
pub(crate) struct Claims(Mutex<HashMap<OwnerId, Claimed>>);

struct Claimed {
    leases: ClaimLeases,
    place: Option<Place>,
    /// Requests that had no answer, and may be carried out late.
    unanswered: u32,
    withdrawn: bool,
    touched: Instant,
}

/// The leases with which the requests of one claim write its key.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClaimLeases {
    /// For a hold, of the TTL that was asked for.
    pub(crate) full: Option<LeaseId>,
    /// For a place in the queue.
    pub(crate) queue: Option<LeaseId>,
}

impl ClaimLeases {
    pub(crate) fn all(self) -> impl Iterator<Item = LeaseId> {
        self.full.into_iter().chain(self.queue)
    }
}

/// A place in a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) token: FencingToken,
    pub(crate) lease: LeaseId,
}

impl Claims {
    /// The leases of a claim so far.
    pub(crate) fn leases(&self, owner: OwnerId) -> Result<ClaimLeases, BackendError> {
        match self.book().get(&owner) {
            Some(claimed) if claimed.withdrawn => Err(withdrawn()),
            Some(claimed) => Ok(claimed.leases),
            None => Ok(ClaimLeases::default()),
        }
    }

    /// A request of the claim is sent that may write its key with `leases`.
    pub(crate) fn asks(&self, owner: OwnerId, leases: ClaimLeases) {
        let mut book = self.book();
        if book.len() == book.capacity() {
            book.retain(|_, claimed| claimed.touched.elapsed() < REMEMBERED_FOR);
        }
        let claimed = book.entry(owner).or_insert_with(Claimed::new);
        claimed.leases = leases;
        claimed.unanswered += 1;
        claimed.touched = Instant::now();
    }

    /// The request was answered, or is known not to be carried out.
    pub(crate) fn answered(&self, owner: OwnerId) {
        if let Some(claimed) = self.book().get_mut(&owner) {
            claimed.unanswered = claimed.unanswered.saturating_sub(1);
        }
    }

    /// The claim has no place and no hold, or a hold with the lease `on_key`. Returns the leases that
    /// can be used again, which are none while a request may be carried out late.
    pub(crate) fn settled(&self, owner: OwnerId, on_key: Option<LeaseId>) -> Vec<LeaseId> {
        let mut book = self.book();
        let Some(claimed) = book.get_mut(&owner) else { return Vec::new() };
        claimed.place = None;
        if claimed.unanswered > 0 || claimed.withdrawn {
            return Vec::new();
        }
        let leases = claimed.leases.all().filter(|lease| Some(*lease) != on_key).collect();
        book.remove(&owner);
        leases
    }

    /// The claim has a place in the queue. Returns a lease that it does not need any more.
    pub(crate) fn queued(&self, owner: OwnerId, place: Place) -> Option<LeaseId> {
        let mut book = self.book();
        let claimed = book.get_mut(&owner)?;
        claimed.place = Some(place);
        claimed.touched = Instant::now();
        if claimed.unanswered == 0 { claimed.leases.full.take() } else { None }
    }

    /// The place of a claim in the queue, if it has one.
    pub(crate) fn place(&self, owner: OwnerId) -> Option<Place> {
        self.book().get(&owner)?.place
    }

    /// The claim has lost its place, and those of its leases that are gone.
    pub(crate) fn lost(&self, owner: OwnerId, gone: impl Fn(LeaseId) -> bool) {
        if let Some(claimed) = self.book().get_mut(&owner) {
            claimed.place = None;
            claimed.leases.full.take_if(|lease| gone(*lease));
            claimed.leases.queue.take_if(|lease| gone(*lease));
        }
    }

    /// Whether a request of the claim may be carried out late.
    pub(crate) fn is_in_doubt(&self, owner: OwnerId) -> bool {
        self.book().get(&owner).is_some_and(|claimed| claimed.unanswered > 0)
    }

    /// Lets no further request of the claim in. Returns the leases of earlier ones.
    pub(crate) fn withdraw(&self, owner: OwnerId) -> ClaimLeases {
        let mut book = self.book();
        let claimed = book.entry(owner).or_insert_with(Claimed::new);
        (claimed.withdrawn, claimed.place, claimed.touched) = (true, None, Instant::now());
        claimed.leases
    }

    /// The leases of a withdrawn claim are gone, or can be used by others.
    pub(crate) fn withdrawn(&self, owner: OwnerId) {
        if let Some(claimed) = self.book().get_mut(&owner) {
            (claimed.leases, claimed.unanswered) = (ClaimLeases::default(), 0);
        }
    }

    fn book(&self) -> MutexGuard<'_, HashMap<OwnerId, Claimed>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Claimed {
    fn new() -> Self {
        Self {
            leases: ClaimLeases::default(),
            place: None,
            unanswered: 0,
            withdrawn: false,
            touched: Instant::now(),
        }
    }
}
