//! The operations on the locks in a directory, each on the thread that carries it out.

mod admin;
mod runs;

use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::{
    Attempt, Claim, Extension, Release, Renewal, Reservation, Reserved, Withdrawals,
};
use lock_core::{BackendError, LockError, LockName, Outcome, OwnerId};
use parking_lot::Mutex;
use uuid::Uuid;

use crate::blocking::Caller;
use crate::digest::{DIGITS, hex_digest};
use crate::fault::{self, BACKEND};
use crate::lock::Lock;
use crate::locked_file::{LockTimeout, LockedFile};
use crate::machine::Machine;
use crate::notification::Notification;
use crate::path::{FileSystem, absolute, check_folder, unusable};
use crate::platform;
use crate::queue::Place;
use crate::record::Record;
use crate::sockets::{Delivered, Sockets};
use crate::state_file::{StateFile, StateOf};

/// Extension of a lock's file.
const EXTENSION: &str = "lock";

/// Time without a write after which a lock counts as unused.
const IDLE: Duration = Duration::from_secs(7 * 24 * 3600);

/// A directory of locks.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    machine: Machine,
    file_system: FileSystem,
    sockets: Arc<Sockets>,
    /// C19: all requests of these claims come from this process, so its memory is enough.
    withdrawn: Mutex<Withdrawals>,
    /// Places of this process's claims in the queues.
    places: Mutex<HashMap<OwnerId, Place>>,
}

/// Place of a claim in the queue, and the way in which it learns of its turn.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Queueing {
    No,
    Polling,
    /// By a datagram to the socket of this name.
    Listening(Uuid),
}

impl Directory {
    /// Opens a directory; creates it if it is missing.
    pub(crate) fn open(
        path: &Path,
        machine: Machine,
        file_system: FileSystem,
    ) -> Result<Self, LockError> {
        let path = absolute(path)?;
        platform::create_directory(&path).map_err(|error| unusable("create", &path, error))?;
        file_system.refuse_foreign(&path)?;
        check_folder(&path)?;
        let sockets = Arc::new(Sockets::of(&path));
        let (withdrawn, places) = Default::default();
        Ok(Self { path, machine, file_system, sockets, withdrawn, places })
    }

    /// Returns the sockets on which waiters listen.
    pub(crate) fn sockets(&self) -> &Arc<Sockets> {
        &self.sockets
    }

    pub(crate) fn try_acquire(
        &self,
        claim: &Claim,
        queueing: Queueing,
        caller: &Caller,
    ) -> Result<Attempt, BackendError> {
        let file = LockedFile::create(&self.state_file(&claim.name), LockTimeout::new())?;
        // Only now, since a withdrawal may have come while the file was locked.
        caller.check()?;
        self.refuse_withdrawn(claim)?;
        let mut lock = Lock::of(&claim.name, file, self.machine.now())?;
        let queue = lock.queue();
        // C27: any request serves the first waiters of a lock whose hold is over.
        let mut told = lock.hand_over()?;
        // The answer tells the claim itself.
        told.retain(|next| next.held.owner != claim.owner);
        let answer = self.admit(&mut lock, claim, queueing);
        if matches!(answer, Ok(Attempt::Granted(_))) || lock.queue() != queue {
            lock.write()?;
        } else {
            drop(lock);
        }
        self.tell(told);
        answer
    }

    pub(crate) fn extend(
        &self,
        renewal: &Renewal,
        timeout: LockTimeout,
    ) -> Result<Extension, BackendError> {
        let Some(mut lock) = self.find(&renewal.name, timeout)? else {
            return Ok(Extension::Lost);
        };
        let extension = lock.value.extend(renewal, lock.now().reading());
        if extension != Extension::Lost {
            lock.write()?;
        }
        Ok(extension)
    }

    pub(crate) fn release(&self, name: &LockName, owner: OwnerId) -> Result<Release, BackendError> {
        match self.find(name, LockTimeout::new())? {
            Some(lock) => self.end(lock, owner),
            None => Ok(Release::NotHeld),
        }
    }

    /// Ends a hold, or keeps it for other tasks of its client and reserves tokens for them (C26).
    pub(crate) fn release_or_reserve(&self, hold: &Reservation) -> Result<Reserved, BackendError> {
        let Some(mut lock) = self.find(&hold.name, LockTimeout::new())? else {
            return Ok(Reserved::Ended(Release::NotHeld));
        };
        let is_waited_for = hold.yields && lock.first_waiter()?.is_some();
        match lock.value.reserve(hold, is_waited_for, lock.now().reading()) {
            Some(tokens) => lock.write().map(|()| Reserved::Tokens(tokens)),
            None => self.end(lock, hold.owner).map(Reserved::Ended),
        }
    }

    fn end(&self, mut lock: Lock, owner: OwnerId) -> Result<Release, BackendError> {
        if lock.value.release(owner, lock.now().reading()) == Release::NotHeld {
            return Ok(Release::NotHeld);
        }
        self.tell(lock.pass_on()?);
        Ok(Release::Released)
    }

    /// Removes the files of locks that were unused for a week, but only those whose digest begins with this digit: a
    /// sixteenth of all. A file that cannot be removed is left to a later sweep.
    pub(crate) fn sweep(&self, digit: u32) {
        let may_be_removed = |path: &PathBuf| {
            let name = path.file_name().and_then(OsStr::to_str);
            let begins = char::from_digit(digit, 16).unwrap_or('0');
            if !is_lock_file(path) || !name.is_some_and(|name| name.starts_with(begins)) {
                return false;
            }
            let changed = path.metadata().and_then(|file| file.modified()).ok();
            changed.and_then(|changed| changed.elapsed().ok()).is_some_and(|age| age > IDLE)
        };
        // Reads on after each removal: the process may end in the middle of a large directory.
        let entries = std::fs::read_dir(&self.path).into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()).filter(may_be_removed) {
            _ = self.remove_if_unused(path);
        }
    }

    /// Removes the file under its own file lock: a process that waits for it finds the file deleted, and creates it
    /// anew.
    fn remove_if_unused(&self, path: PathBuf) -> Result<(), BackendError> {
        let state_file = StateFile { path, of: StateOf::UnknownLock };
        let Some(file) = LockedFile::find(&state_file, LockTimeout::new())? else { return Ok(()) };
        let Some(record) = file.value().and_then(Record::decode) else {
            if file.is_empty() {
                // Created by a request that was given up before it wrote.
                _ = std::fs::remove_file(&state_file.path);
            }
            return Ok(());
        };
        let is_its_own = self.path_of(&record.name) == state_file.path;
        let lock = Lock::recorded(record, file, self.machine.now())?;
        if is_its_own && lock.is_forgettable()? {
            // A later sweep removes files that stay.
            _ = std::fs::remove_file(&state_file.path);
        }
        Ok(())
    }

    /// C19: remembers the withdrawals first. A later attempt is then refused, and the following steps undo an earlier
    /// one.
    pub(crate) fn withdraw(&self, name: &LockName, owners: &[OwnerId]) -> Result<(), BackendError> {
        let now = self.machine.now().uptime;
        owners.iter().for_each(|owner| self.withdrawn.lock().remember(*owner, now));
        let Some(mut lock) = self.find(name, LockTimeout::new())? else {
            return Ok(());
        };
        for &owner in owners {
            lock.value.release(owner, lock.now().reading());
            lock.leave(owner)?;
        }
        // C34: the queue moves on even if the claim only waited, since the waiters behind it may fit.
        self.tell(lock.pass_on()?);
        Ok(())
    }

    /// Notifies waiters of their grants. The file is unlocked by then, since a waiter may be slow to receive.
    ///
    /// C28: if nobody has the socket, the waiter is dead, and the next one is served at once.
    fn tell(&self, told: Vec<Notification>) {
        let mut told = VecDeque::from(told);
        while let Some(next) = told.pop_front() {
            if self.sockets.tell(next.socket, &next.message) == Delivered::Nobody {
                // The request is complete, even if this fails: an unclaimed grant is short.
                told.extend(self.take_back(&next).unwrap_or_default());
            }
        }
    }

    /// Ends the hold that was granted to a dead waiter; returns the notifications for the next waiters. A waiter
    /// without a socket may have found its grant by itself. It has then extended the hold, and keeps it (S3).
    fn take_back(&self, granted: &Notification) -> Result<Vec<Notification>, BackendError> {
        let Some(mut lock) = self.find(&granted.lock, LockTimeout::new())? else {
            return Ok(Vec::new());
        };
        let owner = granted.held.owner;
        if lock.value.of(owner) != Some(&granted.held) {
            return Ok(Vec::new());
        }
        lock.value.release(owner, lock.now().reading());
        lock.pass_on()
    }

    /// Returns the files that may belong to locks.
    fn files(&self) -> Result<Vec<PathBuf>, BackendError> {
        let entries =
            std::fs::read_dir(&self.path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let entries = entries.map_err(|error| {
            fault::refused("list", &self.path.display(), Outcome::NotApplied, error)
        })?;
        let paths = entries.into_iter().map(|entry| entry.path());
        Ok(paths.filter(|path| is_lock_file(path)).collect())
    }

    /// Returns the lock in its file; `None` if nobody ever asked for it.
    fn find(&self, name: &LockName, timeout: LockTimeout) -> Result<Option<Lock>, BackendError> {
        let file = LockedFile::find(&self.state_file(name), timeout)?;
        file.map(|file| Lock::of(name, file, self.machine.now())).transpose()
    }

    fn state_file(&self, name: &LockName) -> StateFile {
        StateFile { path: self.path_of(name), of: StateOf::Lock(name.clone()) }
    }

    /// C2: the file name is a digest of the lock's name, since that name may be too long for a file, or hold
    /// characters with a meaning in a path. The record has the name itself: a collision of digests is an error, and
    /// never makes two locks one.
    fn path_of(&self, name: &LockName) -> PathBuf {
        self.path.join(format!("{}.{EXTENSION}", hex_digest(name.as_str())))
    }

    /// Grants a hold to `claim`, finds its present hold, or queues it.
    fn admit(
        &self,
        lock: &mut Lock,
        claim: &Claim,
        queueing: Queueing,
    ) -> Result<Attempt, BackendError> {
        let mut seen = match lock.acquire(claim)? {
            Attempt::Busy(seen) => seen,
            granted => return Ok(granted),
        };
        seen.at = Some(lock.now().server_time());
        let socket = match queueing {
            Queueing::No => return Ok(Attempt::Busy(seen)),
            Queueing::Polling => None,
            Queueing::Listening(socket) => Some(socket),
        };
        let known = self.places.lock().get(&claim.owner).copied();
        let (place, before) = lock.join(claim, socket, known)?;
        let mut places = self.places.lock();
        // R4: dead waiters are removed before the map grows.
        if places.len() == places.capacity() {
            places.retain(|_, place| place.is_alive(lock.now()));
        }
        places.insert(claim.owner, place);
        seen.position = Some(before);
        Ok(Attempt::Busy(seen))
    }

    fn refuse_withdrawn(&self, claim: &Claim) -> Result<(), BackendError> {
        if !self.withdrawn.lock().contains(claim.owner) {
            return Ok(());
        }
        Err(BackendError::withdrawn(BACKEND))
    }
}

fn is_lock_file(path: &Path) -> bool {
    let digest = path.file_stem().map_or(0, |stem| stem.len());
    digest == DIGITS && path.extension().is_some_and(|end| end == EXTENSION)
}

#[cfg(test)]
mod tests;
