//! Decides if it is a claim's turn, only by the claims before it.
//!
//! The claims before a claim only become fewer. So two clients that decide at the same time decide alike, and a
//! claim whose turn has come keeps it. A shared claim waits for claims of other kinds. A claim on permits holds
//! once its slots are written in its node (C36):
//!
//! - The claim's own client writes the slots once, after a read in which all claims before it had theirs.
//! - Those earlier claims can only end after that read, and keep their slots until then.
//! - Later claims take no slots before this claim has its own.
//!
//! A read that is behind shows claims that are gone, and so makes a claim wait longer. It lacks no claim before
//! this one: the session saw the later creation of its own node.

use futures_util::future::try_join_all;
use lock_core::backend::Admission;
use lock_core::{BackendError, Kind, Permits, Slots};

use crate::queue::{Entry, Queue};
use crate::session::Session;
use crate::store::{Found, Store};

/// Standing of a claim among the claims before it.
#[derive(Debug)]
pub(crate) enum Standing {
    /// Its turn has come. A claim on permits gets these slots.
    Fits(Slots),
    /// This earlier claim must end first.
    Behind(usize),
    /// All earlier claims hold, and leave too few permits.
    Full,
}

impl Store {
    /// Returns the standing of a claim of this kind with `at` claims before it.
    pub(crate) async fn standing(
        &self,
        session: &Session,
        lock: &str,
        queue: &Queue,
        (at, kind): (usize, Kind),
    ) -> Result<Standing, BackendError> {
        let before = queue.entries().get(..at).unwrap_or_default();
        let in_the_way = match kind {
            Kind::Shared => before.iter().rposition(|entry| entry.kind != kind),
            Kind::OneOf(permits) => {
                return self.standing_of_permits(session, lock, before, permits).await;
            }
            _ => at.checked_sub(1),
        };
        Ok(in_the_way.map_or(Standing::Fits(Slots::NONE), Standing::Behind))
    }

    async fn standing_of_permits(
        &self,
        session: &Session,
        lock: &str,
        before: &[Entry],
        permits: Permits,
    ) -> Result<Standing, BackendError> {
        let read = async |entry: &Entry| {
            let found = self.find(session, &format!("{lock}/{}", entry.child)).await?;
            Ok::<_, BackendError>(found.and_then(Found::held).map(|written| written.slots))
        };
        let Some(last) = before.last() else {
            return Ok(Standing::Fits(Slots::new(0..permits.taken())));
        };
        if let Some(other) = before.iter().rposition(|entry| entry.kind.permits() != permits.of()) {
            return Ok(Standing::Behind(other));
        }
        // C34: holders are at the front. So this claim shows if any claim before ours waits.
        let nearest = Standing::Behind(before.len() - 1);
        if read(last).await?.is_none() {
            return Ok(nearest);
        }
        // All claims before ours hold, so their names tell the number of taken slots.
        let taken: u32 = before.iter().map(|entry| u32::from(entry.kind.slots())).sum();
        if taken + u32::from(permits.taken()) > u32::from(permits.of()) {
            return Ok(Standing::Full);
        }
        let slots = try_join_all(before.iter().map(read)).await?;
        let Some(slots) = slots.into_iter().collect::<Option<Vec<_>>>() else { return Ok(nearest) };
        let held = before.iter().zip(&slots).map(|(entry, slots)| (entry.kind, slots));
        Ok(match Admission::of(Kind::OneOf(permits), held) {
            Admission::Fits(slots) => Standing::Fits(slots),
            Admission::Waits => Standing::Full,
        })
    }

    /// Returns the node of the first waiter among the first claims, up to `place`, if its turn has come (C28), and its
    /// version.
    pub(crate) async fn untaken(
        &self,
        session: &Session,
        lock: &str,
        queue: &Queue,
        place: usize,
    ) -> Result<Option<(String, i32)>, BackendError> {
        let front: Vec<_> = queue.entries().iter().take(queue.front().min(place)).collect();
        let at = self.first_waiter(session, lock, &front).await?;
        let Some(entry) = front.get(at) else { return Ok(None) };
        let path = format!("{lock}/{}", entry.child);
        let found = self.find(session, &path).await?;
        let Some(found) = found.filter(Found::waits) else { return Ok(None) };
        let standing = self.standing(session, lock, queue, (at, entry.kind)).await?;
        Ok(matches!(standing, Standing::Fits(_)).then_some((path, found.stat.version)))
    }

    /// Returns the place of the first claim that waits for permits: those before it hold (C34). A claim of another kind
    /// has its turn if it is the first of all.
    async fn first_waiter(
        &self,
        session: &Session,
        lock: &str,
        front: &[&Entry],
    ) -> Result<usize, BackendError> {
        let (mut low, mut high) = (0, front.len());
        while let Some(entry) = front.get(usize::midpoint(low, high)).filter(|_| low < high)
            && entry.kind.slots() > 0
        {
            let path = format!("{lock}/{}", entry.child);
            match self.find(session, &path).await?.is_some_and(|found| found.waits()) {
                true => high = usize::midpoint(low, high),
                false => low = usize::midpoint(low, high) + 1,
            }
        }
        Ok(low)
    }
}
