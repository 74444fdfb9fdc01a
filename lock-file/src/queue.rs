//! The queue of a lock: who waits for it, first come first served (C27).
//!
//! The entries lie behind the two slots of the lock's own file, so that one open file and one lock of the
//! operating system are enough for both. The record says which of them count: `head..tail`.
//!
//! ```text
//!   slot 0 │ slot 1 │ … │ entry │ gone │ entry │ entry │ … room … │
//!                        ▲ head                         ▲ tail     ▲ limit
//! ```
//!
//! - To **arrive** is one write of an entry at the tail, and then the record with a greater tail.
//! - To be **served** is the record with a greater head. The head moves past those that are gone.
//! - To **leave** is the record with a smaller tail or a greater head; or, from the middle, to be erased.
//! - When there is no **room**, those that are alive move to a [part](Parts) of the file that is free,
//!   with room for as many again. So an arrival costs the same on average, however many wait, and the file is
//!   at most a few times as long as the queue.
//!
//! What the record names was written before it. So a process that is killed at any byte leaves the queue as
//! it was before or after.

use std::ops::Range;

use lock_core::{BackendError, OwnerId};

use crate::fault;
use crate::locked_file::LockedFile;
use crate::machine::Now;
use crate::parts::{Parts, offset};
use crate::queue_entry::{ENTRY_BYTES, QueueEntry};

/// The fewest entries that there is room for.
const SMALLEST: u64 = 16;

/// Number of entries that are read at once.
const CHUNK: u64 = 16;

/// A file that is longer is cut when nobody waits any more.
pub(crate) const LONGEST_IDLE_FILE: u64 = offset(4 * SMALLEST);

/// Entries of a lock's file that are its queue. Places are counted in entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Queue {
    head: u64,
    tail: u64,
    limit: u64,
}

/// A waiter, and its place.
#[derive(Clone, Debug)]
pub(crate) struct Queued {
    place: u64,
    pub(crate) entry: QueueEntry,
}

impl Queue {
    pub(crate) fn is_empty(self) -> bool {
        self.head == self.tail
    }

    /// The part of the file that it takes.
    pub(crate) fn part(self) -> Range<u64> {
        self.head..self.limit
    }

    /// Returns the live waiters, in the order in which they came. Each is read when it is asked for.
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

    /// Gives `entry` a place, the last or the one it has, and says how many are before it.
    pub(crate) fn join(
        self,
        file: &LockedFile,
        entry: &QueueEntry,
        now: &Now,
        parts: &mut Parts,
    ) -> Result<(Self, u64), BackendError> {
        let mut before = 0;
        for queued in self.alive(file, now) {
            let queued = queued?;
            if queued.entry.owner == entry.owner {
                write(file, queued.place, &entry.encode())?;
                return Ok((self, before));
            }
            before += 1;
        }
        let queue = if self.tail < self.limit { self } else { self.moved(file, now, parts)? };
        write(file, queue.tail, &entry.encode())?;
        Ok((Self { tail: queue.tail + 1, ..queue }, before))
    }

    /// The queue when `served`, and all before it, are no longer in it.
    #[must_use]
    pub(crate) fn after(self, served: &Queued) -> Self {
        Self { head: served.place + 1, ..self }.unless_empty()
    }

    /// The queue without `owner` (C19).
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

    /// Moves the live waiters to a part of the file that is free, with room for as many again.
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

    /// As the record says it.
    pub(crate) fn to_line(self) -> String {
        format!("{} {} {}", self.head, self.tail, self.limit)
    }

    /// Reads what [`to_line`](Self::to_line) wrote; `None` if it is something else.
    pub(crate) fn from_line(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let mut next = || words.next()?.parse::<u32>().ok().map(u64::from);
        let (head, tail, limit) = (next()?, next()?, next()?);
        let whole = head < tail && tail <= limit && words.next().is_none();
        whole.then_some(Self { head, tail, limit })
    }
}

/// The entries at these places that are somebody's.
fn read(file: &LockedFile, places: Range<u64>) -> Result<Vec<Queued>, BackendError> {
    let count = (places.end - places.start) as usize;
    let bytes = file.read_at(offset(places.start), count * ENTRY_BYTES)?;
    let (entries, _) = bytes.as_chunks();
    let whole = places.zip(entries).filter(|(_, entry)| QueueEntry::is_whole(entry));
    let queued =
        whole.map(|(place, entry)| Some(Queued { place, entry: QueueEntry::decode(entry)? }));
    // C34: a waiter that is not understood is not passed.
    queued
        .collect::<Option<_>>()
        .ok_or_else(|| fault::unusable(file.state_file(), "a waiter in it is not understood"))
}

fn write(file: &LockedFile, place: u64, entries: &[u8]) -> Result<(), BackendError> {
    file.write_at(offset(place), entries)
}
