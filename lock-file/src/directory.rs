//! The locks in a directory: each operation once, as the thread sees it that does it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lock_core::backend::{
    self, Attempt, Claim, Extension, Grant, Recording, Release, Renewal, Withdrawals,
};
use lock_core::{
    BackendError, Contention, FencingToken, Finding, Holder, LockError, LockName, LockState,
    Occurrence, Outcome, OwnerId, Ttl, Whom,
};
use uuid::Uuid;

use crate::blocking::Caller;
use crate::digest::{DIGITS, hex_digest};
use crate::fault::{self, BACKEND};
use crate::hand_over::{Notification, first_waiter, grant_to, hand_over};
use crate::locked_file::{LockTimeout, LockedFile};
use crate::machine::{Machine, Now};
use crate::path::{absolute, refuse_network_mount, unusable};
use crate::platform;
use crate::queue::{LONGEST_IDLE_FILE, Queue};
use crate::queue_entry::QueueEntry;
use crate::record::{Hold, Record};
use crate::runs::Runs;
use crate::sockets::{Sockets, Told};
use crate::state_file::{StateFile, StateOf};

/// How the file of a lock ends.
const EXTENSION: &str = "lock";

/// A directory of locks.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    machine: Machine,
    sockets: Arc<Sockets>,
    /// C19: only this process has requests of these claims, so its memory is enough.
    withdrawn: Mutex<Withdrawals>,
}

/// Whether a claim takes a place in the queue, and how it is told of its turn.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Queueing {
    No,
    Polling,
    /// By a datagram to the socket of this name.
    Listening(Uuid),
}

impl Directory {
    /// Opens a directory, and makes it if it is not there.
    pub(crate) fn open(path: &Path, machine: Machine) -> Result<Self, LockError> {
        let path = &absolute(path)?;
        platform::create_directory(path).map_err(|error| unusable("create", path, error))?;
        refuse_network_mount(path)?;
        platform::check_rights(path).map_err(|error| unusable("read and write", path, error))?;
        let sockets = Arc::new(Sockets::of(path));
        Ok(Self { path: path.clone(), machine, sockets, withdrawn: Mutex::default() })
    }

    /// The sockets by which waiters hear.
    pub(crate) fn sockets(&self) -> &Arc<Sockets> {
        &self.sockets
    }

    pub(crate) fn try_acquire(
        &self,
        claim: &Claim,
        queueing: Queueing,
        caller: &Caller,
    ) -> Result<Attempt, BackendError> {
        let mut file = LockedFile::create(&self.state_file(&claim.name), LockTimeout::new())?;
        caller.check()?;
        self.refuse_withdrawn(claim)?;
        let found = record_of(&claim.name, &file)?;
        let now = self.machine.now();
        match found {
            // C16: a repeat finds its own grant, with the same token.
            Some(own) if own.is_held_by(claim.owner, &now) => {
                take(file, own.extended(claim.ttl, &now), claim)
            }
            Some(held) if held.hold(&now).is_some() => {
                let (record, seen) = queue_up(&file, held.clone(), claim, queueing, &now)?;
                if record != held {
                    write(&mut file, &record)?;
                }
                Ok(Attempt::Busy(seen))
            }
            Some(free) => self.take_in_turn(file, &free, claim, queueing, &now),
            None => take(file, granted(None, claim, &now)?, claim),
        }
    }

    /// Takes a lock whose hold is over, if nobody waits before `claim`.
    fn take_in_turn(
        &self,
        mut file: LockedFile,
        free: &Record,
        claim: &Claim,
        queueing: Queueing,
        now: &Now,
    ) -> Result<Attempt, BackendError> {
        let queue = free.queue(now);
        match first_waiter(&file, free, now)? {
            // C27: the first of the waiters is served, whoever asks.
            Some(other) if other.entry.owner != claim.owner => {
                let (record, notification) = grant_to(&other, free, now)?;
                let (record, seen) = queue_up(&file, record, claim, queueing, now)?;
                write(&mut file, &record)?;
                drop(file);
                self.tell(notification);
                Ok(Attempt::Busy(seen))
            }
            own => {
                let queue = own.map_or_else(Queue::default, |own| queue.after(&own));
                take(file, granted(Some(free), claim, now)?.with_queue(queue), claim)
            }
        }
    }

    pub(crate) fn extend(
        &self,
        renewal: &Renewal,
        timeout: LockTimeout,
    ) -> Result<Extension, BackendError> {
        let Some((mut file, record)) = self.find(&renewal.name, timeout)? else {
            return Ok(Extension::Lost);
        };
        let now = self.machine.now();
        if !record.is_held_by(renewal.owner, &now) || record.token != renewal.token {
            return Ok(Extension::Lost);
        }
        file.replace(record.extended(renewal.ttl, &now).encode())?;
        Ok(Extension::Extended(renewal.ttl.as_duration()))
    }

    pub(crate) fn release(&self, name: &LockName, owner: OwnerId) -> Result<Release, BackendError> {
        let Some((file, record)) = self.find(name, LockTimeout::new())? else {
            return Ok(Release::NotHeld);
        };
        let now = self.machine.now();
        if !record.is_held_by(owner, &now) {
            return Ok(Release::NotHeld);
        }
        self.pass_on(file, record, &now)?;
        Ok(Release::Released)
    }

    /// Keeps everybody out for `delay`, under an owner that is nobody (C41).
    pub(crate) fn release_after(
        &self,
        name: &LockName,
        owner: OwnerId,
        delay: Ttl,
    ) -> Result<Release, BackendError> {
        let Some((mut file, record)) = self.find(name, LockTimeout::new())? else {
            return Ok(Release::NotHeld);
        };
        let (now, retired) = (self.machine.now(), owner.retired());
        // C16: a repeat finds what it did before.
        if !record.is_held_by(owner, &now) && !record.is_held_by(retired, &now) {
            return Ok(Release::NotHeld);
        }
        write(&mut file, &record.retired(retired, delay, &now))?;
        Ok(Release::Released)
    }

    /// C42: the file of the lock is locked from the check to the record, so that nobody is granted the lock
    /// in between. What is to be recorded is written before, for a disk may be slow.
    pub(crate) fn record(
        &self,
        record: &backend::Record,
        caller: &Caller,
    ) -> Result<Recording, BackendError> {
        let runs = Runs::of(&self.path, &record.name);
        let written = runs.write(record, &self.machine.now())?;
        let Some((_locked, lock)) = self.find(&record.name, LockTimeout::new())? else {
            return Ok(Recording::Lost);
        };
        caller.check()?;
        let now = self.machine.now();
        if !lock.is_held_by(record.owner, &now) || lock.token != record.token {
            return Ok(Recording::Lost);
        }
        written.put_in_place()?;
        runs.sweep(&now);
        Ok(Recording::Recorded)
    }

    pub(crate) fn recorded(
        &self,
        name: &LockName,
        occurrence: &Occurrence,
    ) -> Result<Option<FencingToken>, BackendError> {
        Runs::of(&self.path, name).find(occurrence, &self.machine.now())
    }

    /// C19: remembers the withdrawal first. An attempt that comes after it is then refused, and an attempt
    /// that came before it is undone by what follows.
    pub(crate) fn withdraw(&self, name: &LockName, owner: OwnerId) -> Result<(), BackendError> {
        self.withdrawn().remember(owner, self.machine.now().uptime);
        let Some((mut file, record)) = self.find(name, LockTimeout::new())? else {
            return Ok(());
        };
        let now = self.machine.now();
        if record.is_held_by(owner, &now) {
            return self.pass_on(file, record, &now);
        }
        let (before, after) = (record.queue(&now), record.queue(&now).without(&file, owner, &now)?);
        if before != after {
            write(&mut file, &record.with_queue(after))?;
        }
        Ok(())
    }

    /// Ends the hold, for the first waiter if there is one.
    fn pass_on(&self, file: LockedFile, record: Record, now: &Now) -> Result<(), BackendError> {
        self.tell(end(file, record, now)?);
        Ok(())
    }

    /// Tells a waiter of its grant. The file is no longer locked then: the waiter may be slow to hear.
    ///
    /// C28: where nobody hears, the waiter is dead, and the next one is served at once.
    fn tell(&self, mut next: Option<Notification>) {
        while let Some(told) = next {
            if self.sockets.tell(told.socket, &told.message) == Told::Sent {
                return;
            }
            // What was asked for is done, whatever becomes of this: a grant that nobody claims is short.
            next = self.take_back(&told.granted).ok().flatten();
        }
    }

    /// Ends the hold that was granted to a dead waiter; returns what the next one is to be told. A waiter that
    /// nobody could tell may have found its grant by itself, and then keeps it (S3).
    fn take_back(&self, granted: &Record) -> Result<Option<Notification>, BackendError> {
        let now = self.machine.now();
        match self.find(&granted.name, LockTimeout::new())? {
            Some((file, record)) if record.is_unclaimed(granted, &now) => end(file, record, &now),
            _ => Ok(None),
        }
    }

    pub(crate) fn inspect(&self, name: &LockName) -> Result<LockState, BackendError> {
        match self.find(name, LockTimeout::new())? {
            Some((file, record)) => self.state(&file, record),
            None => Ok(LockState::new(name.clone(), None, Some(0))),
        }
    }

    pub(crate) fn list(&self, prefix: &str, limit: usize) -> Result<Vec<LockState>, BackendError> {
        let (mut states, timeout) = (Vec::new(), LockTimeout::new());
        for path in self.files()? {
            states.extend(self.state_in(path, timeout)?);
        }
        Ok(LockState::listed(states, prefix, limit))
    }

    pub(crate) fn evict(&self, name: &LockName, whom: &Whom) -> Result<Vec<Holder>, BackendError> {
        let Some((file, record)) = self.find(name, LockTimeout::new())? else {
            return Ok(Vec::new());
        };
        let now = self.machine.now();
        let ended = record.holder(&now).filter(|holder| whom.includes(holder));
        if ended.is_some() {
            self.pass_on(file, record, &now)?;
        }
        Ok(ended.into_iter().collect())
    }

    /// Looks again: what was true when the directory was opened may have changed.
    pub(crate) fn doctor(&self) -> Vec<Finding> {
        let mount = match refuse_network_mount(&self.path) {
            Ok(()) => Finding::good("mount", "the directory is on a local file system"),
            Err(error) => Finding::risk("mount", error.to_string(), "use a local directory"),
        };
        let rights = match platform::check_rights(&self.path) {
            Ok(()) => Finding::good("rights", "this user may read and write the directory"),
            Err(error) => Finding::risk(
                "rights",
                format!("the directory cannot be read and written: {error}"),
                "run as its owner, or choose another directory",
            ),
        };
        vec![mount, rights]
    }

    /// The files that may be of locks.
    fn files(&self) -> Result<Vec<PathBuf>, BackendError> {
        let entries =
            std::fs::read_dir(&self.path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let entries = entries.map_err(|error| {
            fault::refused("list", &self.path.display(), Outcome::NotApplied, error)
        })?;
        let paths = entries.into_iter().map(|entry| entry.path());
        Ok(paths.filter(|path| is_lock_file(path)).collect())
    }

    /// The lock in the file at `path`; `None` if it is not the file of the lock that it names, such as a
    /// copy that somebody made.
    fn state_in(
        &self,
        path: PathBuf,
        timeout: LockTimeout,
    ) -> Result<Option<LockState>, BackendError> {
        let state_file = StateFile { path, of: StateOf::UnknownLock };
        let Some(file) = LockedFile::find(&state_file, timeout)? else {
            return Ok(None);
        };
        let record = file.value().and_then(Record::decode);
        let record = record.filter(|record| self.path_of(&record.name) == state_file.path);
        record.map(|record| self.state(&file, record)).transpose()
    }

    fn state(&self, file: &LockedFile, record: Record) -> Result<LockState, BackendError> {
        let now = self.machine.now();
        let (holder, queue) = (record.holder(&now), record.queue(&now));
        let waiters = queue.alive(file, &now).collect::<Result<Vec<_>, _>>()?;
        Ok(LockState::new(record.name, holder, Some(waiters.len() as u64)))
    }

    /// The file of a lock, locked, and what it says; `None` if the lock was never granted.
    fn find(
        &self,
        name: &LockName,
        timeout: LockTimeout,
    ) -> Result<Option<(LockedFile, Record)>, BackendError> {
        let Some(file) = LockedFile::find(&self.state_file(name), timeout)? else {
            return Ok(None);
        };
        let record = record_of(name, &file)?;
        Ok(record.map(|record| (file, record)))
    }

    fn state_file(&self, name: &LockName) -> StateFile {
        StateFile { path: self.path_of(name), of: StateOf::Lock(name.clone()) }
    }

    /// C2: the file is called by a digest of the lock's name, because that name may be too long for a
    /// file, and may hold what has a meaning in a path. The record holds the name itself, so that a
    /// collision of digests is an error, and never one lock in the place of another.
    fn path_of(&self, name: &LockName) -> PathBuf {
        self.path.join(format!("{}.{EXTENSION}", hex_digest(name.as_str())))
    }

    fn withdrawn(&self) -> MutexGuard<'_, Withdrawals> {
        self.withdrawn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refuse_withdrawn(&self, claim: &Claim) -> Result<(), BackendError> {
        if !self.withdrawn().contains(claim.owner) {
            return Ok(());
        }
        Err(BackendError::withdrawn(BACKEND))
    }
}

fn granted(last: Option<&Record>, claim: &Claim, now: &Now) -> Result<Record, BackendError> {
    let hold = Hold::new(claim.owner, claim.label.clone(), claim.ttl.as_duration(), now);
    Record::granted(&claim.name, last, hold, now).map_err(fault::out_of_tokens)
}

/// Writes that `claim` holds the lock.
fn take(mut file: LockedFile, record: Record, claim: &Claim) -> Result<Attempt, BackendError> {
    write(&mut file, &record)?;
    Ok(Attempt::Granted(Grant::new(record.token, claim.ttl.as_duration())))
}

/// Gives `claim` a place in the queue of a lock that is held, and says what it is to know.
fn queue_up(
    file: &LockedFile,
    record: Record,
    claim: &Claim,
    queueing: Queueing,
    now: &Now,
) -> Result<(Record, Contention), BackendError> {
    let mut seen = record.hold(now).map_or_else(Contention::unknown, |hold| hold.contention(now));
    let socket = match queueing {
        Queueing::No => return Ok((record, seen)),
        Queueing::Polling => None,
        Queueing::Listening(socket) => Some(socket),
    };
    let entry = QueueEntry::of(claim, socket, now);
    let (queue, before) = record.queue(now).join(file, &entry, now)?;
    seen.position = Some(before);
    Ok((record.with_queue(queue), seen))
}

fn write(file: &mut LockedFile, record: &Record) -> Result<(), BackendError> {
    file.replace(record.encode())?;
    if record.has_no_queue() {
        file.cut_if_longer_than(LONGEST_IDLE_FILE);
    }
    Ok(())
}

/// Writes that the hold is over, or that the lock is the next waiter's; returns what that one is to be told.
fn end(
    mut file: LockedFile,
    record: Record,
    now: &Now,
) -> Result<Option<Notification>, BackendError> {
    let (record, notification) = hand_over(&file, record, now)?;
    write(&mut file, &record)?;
    Ok(notification)
}

fn record_of(name: &LockName, file: &LockedFile) -> Result<Option<Record>, BackendError> {
    let Some(payload) = file.value() else {
        return Ok(None);
    };
    match Record::decode(payload) {
        Some(record) if record.name == *name => Ok(Some(record)),
        Some(_) => Err(fault::unusable(file.state_file(), "it is the record of another lock")),
        None => Err(fault::unusable(file.state_file(), "it is not the record of a lock")),
    }
}

fn is_lock_file(path: &Path) -> bool {
    let digest = path.file_stem().map_or(0, |stem| stem.len());
    digest == DIGITS && path.extension().is_some_and(|end| end == EXTENSION)
}

#[cfg(test)]
mod tests;
