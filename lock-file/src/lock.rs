//! One lock in its file: its holders, its waiters, and the hand-off between them.
//!
//! ```text
//!   the record is read ──▶ holds that are over go ──▶ a hold or a place comes or goes ──▶ written
//!                                                        │                        ▲
//!                                                        └─▶ all that fit come in ┘
//! ```

use std::time::Duration;

use lock_core::backend::{Admission, Claim, Grant, Held, Holds, TokenRange, next_token};
use lock_core::{BackendError, FencingToken, Holder, Kind, Label, LockName, OwnerId, Slots, Whom};
use uuid::Uuid;

use crate::fault;
use crate::hold_table::HoldTable;
use crate::locked_file::LockedFile;
use crate::machine::{Now, Written};
use crate::notification::Notification;
use crate::parts::Parts;
use crate::queue::{LONGEST_IDLE_FILE, Place, Queue};
use crate::queue_entry::QueueEntry;
use crate::record::{Holders, Record};

/// The present state of a lock. Its file is locked while this lives.
#[derive(Debug)]
pub(crate) struct Lock {
    file: LockedFile,
    now: Now,
    name: LockName,
    /// The last granted token, if there was one.
    token: Option<FencingToken>,
    /// Holds that are not over.
    pub(crate) holds: Holds<Duration>,
    /// Empty if there is no hold.
    queue: Queue,
    parts: Parts,
}

impl Lock {
    /// Reads the lock called `name` from its file.
    pub(crate) fn of(name: &LockName, file: LockedFile, now: Now) -> Result<Self, BackendError> {
        match file.value().map(Record::decode) {
            None => Ok(Self::never_granted(name, file, now)),
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
        let token = Some(record.token);
        let lock = Self { token, ..Self::never_granted(&record.name, file, now) };
        // Holders and waiters do not outlive a boot.
        match record.holders.written() {
            Some(written) if lock.now.is_in_boot_of(written) => lock.filled(record),
            _ => Ok(lock),
        }
    }

    fn never_granted(name: &LockName, file: LockedFile, now: Now) -> Self {
        let (holds, queue, parts) = Default::default();
        Self { file, now, name: name.clone(), token: None, holds, queue, parts }
    }

    /// Returns the lock with the holders and the waiters of its record.
    fn filled(mut self, record: Record) -> Result<Self, BackendError> {
        self.queue = record.queue;
        self.parts.add(record.queue.part());
        match record.holders {
            Holders::Nobody => {}
            Holders::One(held, _) => self.holds.push(held),
            Holders::Several(table, _) => {
                self.parts.add(table.part());
                self.holds = table.read(&self.file)?;
            }
        }
        self.holds.expire(self.now.uptime);
        Ok(self)
    }

    pub(crate) fn name(&self) -> &LockName {
        &self.name
    }

    pub(crate) fn now(&self) -> &Now {
        &self.now
    }

    /// Returns the queue's entries in the file. Each change of the queue changes them.
    pub(crate) fn queue(&self) -> Queue {
        self.queue
    }

    /// Returns the kind for which each waiter waits.
    pub(crate) fn waited_for_as(&self) -> Result<Vec<Kind>, BackendError> {
        let alive = self.queue.alive(&self.file, &self.now);
        alive.map(|waiter| waiter.map(|waiter| waiter.entry.kind)).collect()
    }

    /// Returns true if there is no holder and no waiter, and a new file would give a greater token: its first token
    /// is the time.
    pub(crate) fn is_forgettable(&self) -> Result<bool, BackendError> {
        let is_behind = self.token.is_none_or(|token| token.get() < self.now.wall_micros);
        Ok(is_behind && self.holds.as_slice().is_empty() && !self.is_waited_for()?)
    }

    /// Returns the number of permits and the label of the first waiter, if it waits for permits and is not `owner`.
    pub(crate) fn first_waiter(
        &self,
        owner: OwnerId,
    ) -> Result<Option<(u16, Label)>, BackendError> {
        let first = self.queue.alive(&self.file, &self.now).next().transpose()?;
        let first = first.map(|first| first.entry).filter(|first| first.owner != owner);
        Ok(first.map(|first| (first.kind.permits(), first.label)).filter(|(number, _)| *number > 0))
    }

    /// Decides if `claim` gets the lock now, and with which slots.
    pub(crate) fn admission(&self, claim: &Claim) -> Admission {
        match self.holds.admission(claim.kind) {
            // C34: waiters are not overtaken.
            Admission::Fits(_) if !self.queue.is_empty() => Admission::Waits,
            admission => admission,
        }
    }

    /// Grants `claim` a hold.
    pub(crate) fn grant(&mut self, claim: &Claim, slots: Slots) -> Result<Grant, BackendError> {
        let token = token_after(self.token, &self.now)?;
        let held = Held::of(claim, token, slots.clone(), self.now.uptime);
        self.token = Some(token);
        self.holds.push(Held { since: self.now.since(), ..held });
        Ok(Grant::new(token, claim.ttl.as_duration()).with_slots(slots))
    }

    /// Returns true if there are waiters.
    pub(crate) fn is_waited_for(&self) -> Result<bool, BackendError> {
        let first = self.queue.alive(&self.file, &self.now).next().transpose()?;
        Ok(first.is_some())
    }

    /// Reserves up to `wanted` tokens after the last one (C26).
    pub(crate) fn reserve(&mut self, wanted: u32) -> Option<TokenRange> {
        let wall = Duration::from_micros(self.now.wall_micros);
        let tokens = TokenRange::behind_clock(self.token?, wanted, wall)?;
        self.token = Some(tokens.last());
        Some(tokens)
    }

    /// Ends the holds of `whom`.
    pub(crate) fn evict(&mut self, whom: &Whom) -> Vec<Holder> {
        self.holds.evict(whom, self.token, self.now.uptime)
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
        let mut told = Vec::new();
        let mut alive = self.queue.alive(&self.file, &self.now);
        // Nothing fits beside an exclusive hold, so the queue need not be read.
        while !self.is_held_exclusively() {
            let Some(waiter) = alive.next().transpose()? else {
                self.queue = Queue::default();
                break;
            };
            match self.holds.admission(waiter.entry.kind) {
                Admission::Waits => return Ok(told),
                Admission::Fits(slots) => {
                    let token = token_after(self.token, &self.now)?;
                    self.token = Some(token);
                    let held = waiter.entry.held(token, slots, &self.now);
                    self.holds.push(held.clone());
                    told.extend(Notification::of(&waiter.entry, &self.name, held, &self.now));
                }
            }
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
        let Some(token) = self.token else { return Ok(()) };
        let written = Written::at(&self.now);
        let holders = match self.holds.as_slice() {
            [] => Holders::Nobody,
            [held] if held.kind == Kind::Exclusive && held.token == token => {
                Holders::One(held.clone(), written)
            }
            several => {
                let table = HoldTable::write(several, &self.file, &mut self.parts)?;
                Holders::Several(table, written)
            }
        };
        let is_short = self.queue.is_empty() && !matches!(holders, Holders::Several(..));
        let record = Record { name: self.name, token, holders, queue: self.queue };
        self.file.replace(record.encode())?;
        if is_short {
            self.file.cut_if_longer_than(LONGEST_IDLE_FILE);
        }
        Ok(())
    }

    fn is_held_exclusively(&self) -> bool {
        matches!(self.holds.as_slice(), [held] if held.kind == Kind::Exclusive)
    }
}

fn token_after(last: Option<FencingToken>, now: &Now) -> Result<FencingToken, BackendError> {
    let wall = Duration::from_micros(now.wall_micros);
    next_token(last, wall).map_err(fault::out_of_tokens)
}
