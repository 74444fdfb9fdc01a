//! One lock in its file: its value, its waiters, and the hand-off between them.
//!
//! ```text
//!   the record is read ──▶ holds that are over go ──▶ a hold or a place comes or goes ──▶ written
//!                                                        │                        ▲
//!                                                        └─▶ all that fit come in ┘
//! ```

use lock_core::backend::{Attempt, Claim, LockValue};
use lock_core::{BackendError, Kind, LockName, LockState, OwnerId};
use uuid::Uuid;

use crate::fault;
use crate::hold_table::HoldTable;
use crate::locked_file::LockedFile;
use crate::machine::{Now, Written};
use crate::notification::Notification;
use crate::parts::Parts;
use crate::queue::{LONGEST_IDLE_FILE, Place, Queue};
use crate::queue_entry::QueueEntry;
use crate::record::Record;
use crate::slots::MAX_PAYLOAD_BYTES;

/// The present state of a lock. Its file is locked while this lives.
#[derive(Debug)]
pub(crate) struct Lock {
    file: LockedFile,
    now: Now,
    name: LockName,
    /// The holds, none of which is over, and the last token.
    pub(crate) value: LockValue,
    /// Empty if there is no hold.
    queue: Queue,
    table: Option<HoldTable>,
    parts: Parts,
}

impl Lock {
    /// Reads the lock called `name` from its file.
    pub(crate) fn of(name: &LockName, file: LockedFile, now: Now) -> Result<Self, BackendError> {
        match file.value().map(Record::decode) {
            None => Ok(Self::free(name, LockValue::default(), file, now)),
            Some(Some(record)) if record.name == *name => Self::recorded(record, file, now),
            Some(Some(_)) => {
                Err(fault::unusable(file.state_file(), "it is the record of another lock"))
            }
            Some(None) => Err(fault::no_record(file.state_file())),
        }
    }

    /// Returns the lock whose record is the value of the file.
    pub(crate) fn recorded(
        record: Record,
        file: LockedFile,
        now: Now,
    ) -> Result<Self, BackendError> {
        let Record { name, written, queue, table, value } = record;
        // Holders and waiters do not outlive a boot.
        if !now.is_in_boot_of(&written) {
            return Ok(Self::free(&name, LockValue::after(value.last_token()), file, now));
        }
        let value = match table {
            Some(table) => table.read(&value, &file)?,
            None => value,
        };
        let mut lock = Self { queue, table, ..Self::free(&name, value, file, now) };
        lock.parts.add(queue.part());
        lock.parts.add(table.map_or(0..0, HoldTable::part));
        lock.value.expire(lock.now.reading());
        Ok(lock)
    }

    fn free(name: &LockName, value: LockValue, file: LockedFile, now: Now) -> Self {
        let (queue, table, parts) = Default::default();
        Self { file, now, name: name.clone(), value, queue, table, parts }
    }

    pub(crate) fn now(&self) -> &Now {
        &self.now
    }

    /// Returns the queue's entries in the file. Each change of the queue changes them.
    pub(crate) fn queue(&self) -> Queue {
        self.queue
    }

    /// Returns the lock as seen from outside.
    pub(crate) fn state(&self) -> Result<LockState, BackendError> {
        let alive = self.queue.alive(&self.file, &self.now);
        let waiting = alive.map(|waiter| waiter.map(|waiter| waiter.entry.kind));
        let waiting: Vec<Kind> = waiting.collect::<Result<_, _>>()?;
        Ok(self.value.state(&self.name, Some(waiting), self.now.reading()))
    }

    /// Returns true if there is no holder and no waiter, and a new file would give a greater token: its first token
    /// is the time.
    pub(crate) fn is_forgettable(&self) -> Result<bool, BackendError> {
        let last = self.value.last_token();
        let is_behind = last.is_none_or(|token| token.get() < self.now.wall_micros);
        Ok(is_behind && self.value.holds().is_empty() && self.first_waiter()?.is_none())
    }

    /// Returns the first waiter that is alive.
    pub(crate) fn first_waiter(&self) -> Result<Option<QueueEntry>, BackendError> {
        let first = self.queue.alive(&self.file, &self.now).next().transpose()?;
        Ok(first.map(|first| first.entry))
    }

    /// Grants `claim` a hold, or finds its present hold.
    pub(crate) fn acquire(&mut self, claim: &Claim) -> Result<Attempt, BackendError> {
        // Nothing fits beside an exclusive hold, and claims on permits alone are told of the first waiter. So the queue
        // need not be read for others.
        let is_read = claim.kind.permits() > 0 || !self.is_held_exclusively();
        let first = if is_read { self.first_waiter()? } else { None };
        let first = first.as_ref().map(QueueEntry::asked);
        let at = self.now.reading();
        self.value.acquire(claim.into(), first, at).map_err(fault::out_of_tokens)
    }

    /// Gives `claim` a place in the queue: its present one, or the last. Returns the place, and the number of waiters
    /// before it.
    pub(crate) fn join(
        &mut self,
        claim: &Claim,
        socket: Option<Uuid>,
        known: Option<Place>,
    ) -> Result<(Place, u64), BackendError> {
        let entry = QueueEntry::of(claim, socket, &self.now);
        let joined = self.queue.join(&self.file, &entry, &self.now, &mut self.parts, known)?;
        let (queue, place, before) = joined;
        self.queue = queue;
        Ok((place, before))
    }

    /// Removes the place of `owner` from the queue, if it has one (C19).
    pub(crate) fn leave(&mut self, owner: OwnerId) -> Result<(), BackendError> {
        self.queue = self.queue.without(&self.file, owner, &self.now)?;
        Ok(())
    }

    /// Grants to all at the head of the queue that fit together (C34), and skips dead waiters. Returns the
    /// notifications of the grants.
    pub(crate) fn hand_over(&mut self) -> Result<Vec<Notification>, BackendError> {
        let (mut told, at) = (Vec::new(), self.now.reading());
        let mut alive = self.queue.alive(&self.file, &self.now);
        // Nothing fits beside an exclusive hold, so the queue need not be read.
        while !self.is_held_exclusively() {
            let Some(waiter) = alive.next().transpose()? else {
                self.queue = Queue::default();
                break;
            };
            let held = self.value.let_in(waiter.entry.asked(), at).map_err(fault::out_of_tokens)?;
            let Some(held) = held else { break };
            told.extend(Notification::of(&waiter.entry, &self.name, held.clone(), &self.now));
            self.queue = self.queue.after(&waiter);
        }
        Ok(told)
    }

    /// Hands over, and writes the lock; returns the notifications of the grants.
    pub(crate) fn pass_on(mut self) -> Result<Vec<Notification>, BackendError> {
        let told = self.hand_over()?;
        self.write()?;
        Ok(told)
    }

    /// Writes the present state: the record last, since the parts that it names must exist.
    pub(crate) fn write(mut self) -> Result<(), BackendError> {
        let (name, written) = (self.name, Written::at(&self.now));
        let mut record =
            Record { name, written, queue: self.queue, table: None, value: self.value };
        let mut payload = record.encode();
        if payload.len() > MAX_PAYLOAD_BYTES {
            let table = HoldTable::write(&record.value, self.table, &self.file, &mut self.parts)?;
            record.value = LockValue::after(record.value.last_token());
            record.table = Some(table);
            payload = record.encode();
        }
        self.file.replace(payload)?;
        if record.queue.is_empty() && record.table.is_none() {
            self.file.cut_if_longer_than(LONGEST_IDLE_FILE);
        }
        Ok(())
    }

    fn is_held_exclusively(&self) -> bool {
        matches!(self.value.holds(), [held] if held.kind == Kind::Exclusive)
    }
}
