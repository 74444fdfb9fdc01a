//! The queue of a lock: its waiters, first come first served (C27).
//!
//! The entries are behind the two slots of the lock's own file, so that one open file and one file lock are enough
//! for both. The record has the range of valid entries: `head..tail`.
//!
//! ```text
//!   slot 0 │ slot 1 │ … │ entry │ gone │ entry │ entry │ … room … │
//!                        ▲ head                         ▲ tail     ▲ limit
//! ```
//!
//! - An **arrival** writes an entry at the tail, and then the record with a greater tail.
//! - A **service** writes the record with a greater head. The head moves past waiters that have gone.
//! - A **departure** writes the record with a smaller tail or a greater head, or erases an entry in the middle.
//! - If there is no **room**, live entries move to a free [part](Parts) of the file, with room for as many again. So
//!   the average cost of an arrival does not depend on the number of waiters, and the file is at most a few times as
//!   long as the queue.
//!
//! All that the record names was written before it. So a process that is killed at any byte leaves the queue as it
//! was before or after.

use std::ops::Range;
use std::time::Duration;

use lock_core::backend::WAITER_LIVENESS;
use lock_core::{BackendError, OwnerId};

use crate::fault;
use crate::locked_file::LockedFile;
use crate::machine::Now;
use crate::parts::{Parts, offset};
use crate::queue_entry::{ENTRY_BYTES, QueueEntry};

/// Least room of a queue, in entries.
const SMALLEST: u64 = 16;

/// Number of entries in one read.
const CHUNK: u64 = 16;

/// With more places before it, a waiter is told their number, and not the number of live waiters.
const COUNTED: u64 = 4 * CHUNK;

/// Length above which a file is cut when nobody waits any more.
pub(crate) const LONGEST_IDLE_FILE: u64 = offset(4 * SMALLEST);

/// The entries of a lock's file that are its queue. Places are counted in entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Queue {
    head: u64,
    tail: u64,
    limit: u64,
}

/// A waiter's place, as its process remembers it. With it a repeated look reads only the waiter's own entry, however
/// many wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    at: u64,
    /// Number of places before it.
    rank: u64,
    /// Time of its last look, as uptime.
    seen: Duration,
}

impl Place {
    /// Returns true if the waiter may still be alive: it looks each second.
    pub(crate) fn is_alive(self, now: &Now) -> bool {
        now.uptime.saturating_sub(self.seen) <= WAITER_LIVENESS
    }
}

/// A waiter and its place.
#[derive(Clone, Debug)]
pub(crate) struct Queued {
    place: u64,
    pub(crate) entry: QueueEntry,
}

impl Queue {
    pub(crate) fn is_empty(self) -> bool {
        self.head == self.tail
    }

    /// Returns the part of the file that it occupies.
    pub(crate) fn part(self) -> Range<u64> {
        self.head..self.limit
    }

    /// Returns the live waiters, in the order of their arrival. Each is read when it is needed.
    pub(crate) fn alive<'a>(
        self,
        file: &'a LockedFile,
        now: &'a Now,
    ) -> impl Iterator<Item = Result<Queued, BackendError>> + 'a {
        let chunks = (self.head..self.tail).step_by(CHUNK as usize);
        let chunks = chunks.map(move |start| read(file, start..self.tail.min(start + CHUNK)));
        let queued = chunks.flat_map(|chunk| match chunk {
            Ok(queued) => queued.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        });
        queued.filter(|queued| queued.as_ref().map_or(true, |queued| queued.entry.is_alive(now)))
    }

    /// Gives `entry` a place: its present one, or the last. Returns the place, and the number of waiters before it.
    pub(crate) fn join(
        self,
        file: &LockedFile,
        entry: &QueueEntry,
        now: &Now,
        parts: &mut Parts,
        known: Option<Place>,
    ) -> Result<(Self, Place, u64), BackendError> {
        let (queue, at) = match self.find(file, entry.owner, now, known)? {
            Some(at) => (self, at),
            None => {
                let queue =
                    if self.tail < self.limit { self } else { self.moved(file, now, parts)? };
                (Self { tail: queue.tail + 1, ..queue }, queue.tail)
            }
        };
        write(file, at, &entry.encode())?;
        let rank = at - queue.head;
        let before = match rank {
            ..=COUNTED => {
                Self { tail: at, ..queue }.alive(file, now).collect::<Result<Vec<_>, _>>()?.len()
                    as u64
            }
            _ => rank,
        };
        Ok((queue, Place { at, rank, seen: now.uptime }, before))
    }

    /// Finds the place of `owner`, if it is alive, from its last `known` place. A claim has no place if it never
    /// had one, or if its process forgot it after too long without a look.
    fn find(
        self,
        file: &LockedFile,
        owner: OwnerId,
        now: &Now,
        known: Option<Place>,
    ) -> Result<Option<u64>, BackendError> {
        let is_own = |queued: &Queued| queued.entry.owner == owner && queued.entry.is_alive(now);
        let Some(known) = known else { return Ok(None) };
        let look = |places| Ok(read(file, places)?.into_iter().find(is_own).map(|own| own.place));
        if (self.head..self.tail).contains(&known.at)
            && let Some(at) = look(known.at..known.at + 1)?
        {
            return Ok(Some(at));
        }
        // The queue has moved. At most as many are before the waiter as before, and hardly fewer.
        let mut end = self.tail.min(self.head + known.rank + 1);
        while end > self.head {
            let start = self.head.max(end.saturating_sub(CHUNK));
            if let Some(at) = look(start..end)? {
                return Ok(Some(at));
            }
            end = start;
        }
        Ok(None)
    }

    /// Returns the queue without `served` and all before it.
    #[must_use]
    pub(crate) fn after(self, served: &Queued) -> Self {
        Self { head: served.place + 1, ..self }.unless_empty()
    }

    /// Returns the queue without `owner` (C19).
    pub(crate) fn without(
        self,
        file: &LockedFile,
        owner: OwnerId,
        now: &Now,
    ) -> Result<Self, BackendError> {
        let queued = self.alive(file, now).collect::<Result<Vec<_>, _>>()?;
        let (own, others): (Vec<_>, Vec<_>) =
            queued.into_iter().partition(|queued| queued.entry.owner == owner);
        if own.is_empty() {
            return Ok(self);
        }
        let (Some(first), Some(last)) = (others.first(), others.last()) else {
            return Ok(Self::default());
        };
        for queued in own.iter().filter(|own| (first.place..last.place).contains(&own.place)) {
            write(file, queued.place, &[0; ENTRY_BYTES])?;
        }
        Ok(Self { head: first.place, tail: last.place + 1, limit: self.limit })
    }

    /// Moves the live waiters to a free part of the file, with room for as many again.
    fn moved(self, file: &LockedFile, now: &Now, parts: &mut Parts) -> Result<Self, BackendError> {
        let alive = self.alive(file, now).collect::<Result<Vec<_>, _>>()?;
        let length = alive.len() as u64;
        let room = SMALLEST.max(2 * length);
        let head = parts.take(room);
        let bytes: Vec<u8> = alive.iter().flat_map(|queued| queued.entry.encode()).collect();
        write(file, head, &bytes)?;
        Ok(Self { head, tail: head + length, limit: head + room })
    }

    fn unless_empty(self) -> Self {
        if self.is_empty() { Self::default() } else { self }
    }

    /// Returns the queue as a line of the record: three zeros if nobody waits.
    pub(crate) fn to_line(self) -> String {
        format!("{} {} {}", self.head, self.tail, self.limit)
    }

    /// Parses a line of [`to_line`](Self::to_line); `None` for any other text.
    pub(crate) fn from_line(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let mut next = || words.next()?.parse::<u32>().ok().map(u64::from);
        let (head, tail, limit) = (next()?, next()?, next()?);
        let queue = Self { head, tail, limit };
        let whole = head < tail && tail <= limit || queue == Self::default();
        (whole && words.next().is_none()).then_some(queue)
    }
}

/// Returns the valid entries at these places.
fn read(file: &LockedFile, places: Range<u64>) -> Result<Vec<Queued>, BackendError> {
    let count = (places.end - places.start) as usize;
    let bytes = file.read_at(offset(places.start), count * ENTRY_BYTES)?;
    let (entries, _) = bytes.as_chunks();
    let whole = places.zip(entries).filter(|(_, entry)| QueueEntry::is_whole(entry));
    let queued =
        whole.map(|(place, entry)| Some(Queued { place, entry: QueueEntry::decode(entry)? }));
    // C34: a waiter that is not understood is not overtaken.
    queued
        .collect::<Option<_>>()
        .ok_or_else(|| fault::unusable(file.state_file(), "it has an unreadable waiter"))
}

fn write(file: &LockedFile, place: u64, entries: &[u8]) -> Result<(), BackendError> {
    file.write_at(offset(place), entries)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use lock_core::LockRequest;
    use tempfile::{TempDir, tempdir};

    use super::*;
    use crate::locked_file::LockTimeout;
    use crate::machine::Machine;
    use crate::state_file::{StateFile, StateOf};
    use crate::testing::claim_of;

    /// A queue in a file, and the entries of its waiters, with the places that they remember.
    struct Crowd {
        _home: TempDir,
        file: LockedFile,
        now: Now,
        queue: Queue,
        parts: Parts,
        came: Vec<(QueueEntry, Place)>,
    }

    impl Crowd {
        fn of(count: usize) -> Self {
            let home = tempdir().expect("a directory");
            let path = home.path().join("queue");
            let state_file = StateFile { path, of: StateOf::UnknownLock };
            let file = LockedFile::create(&state_file, LockTimeout::new()).expect("a file");
            let now = Machine::this().expect("a machine").now();
            let (queue, parts, came) = Default::default();
            let mut crowd = Self { _home: home, file, now, queue, parts, came };
            for _ in 0..count {
                let entry = QueueEntry::of(&claim_of(LockRequest::new("a")), None, &crowd.now);
                let place = crowd.join(&entry, None);
                crowd.came.push((entry, place));
            }
            crowd
        }

        fn join(&mut self, entry: &QueueEntry, known: Option<Place>) -> Place {
            let before = self.queue;
            let joined = self.queue.join(&self.file, entry, &self.now, &mut self.parts, known);
            let place;
            (self.queue, place, _) = joined.expect("joined");
            if self.queue.head != before.head {
                self.parts = Parts::default();
                self.parts.add(self.queue.part());
            }
            place
        }
    }

    /// Returns the number of bytes that this thread has read from files.
    fn bytes_read() -> u64 {
        let io = fs::read_to_string("/proc/thread-self/io").expect("a kernel that counts");
        let read = io.lines().find_map(|line| line.strip_prefix("rchar: "));
        read.expect("a count").parse().expect("a number")
    }

    #[test]
    fn c28_an_arrival_and_a_look_read_as_much_however_many_wait() {
        let read_by_the_last = [200, 4000].map(|count| {
            let before = bytes_read();
            let mut crowd = Crowd::of(count);
            assert!(bytes_read() - before < count as u64 * 20_000, "an arrival reads the queue");
            let (entry, place) = crowd.came[count - 1].clone();
            let (before, queue) = (bytes_read(), crowd.queue);
            assert_eq!(crowd.join(&entry, Some(place)), place);
            assert_eq!(crowd.queue, queue);
            bytes_read() - before
        });
        assert!(read_by_the_last[1] < 2 * read_by_the_last[0], "{read_by_the_last:?}");
    }

    #[test]
    fn c27_each_finds_its_place_in_a_queue_that_has_moved() {
        let mut crowd = Crowd::of(200);
        let tail = crowd.queue.tail;
        for (rank, (entry, known)) in crowd.came.clone().into_iter().enumerate() {
            let place = crowd.join(&entry, Some(known));
            assert_eq!(place.rank, rank as u64);
        }
        assert_eq!(crowd.queue.tail, tail, "nobody came anew");
    }
}
