//! The operations on the locks in a directory, each on the thread that carries it out.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::backend::{
    self, Admission, Attempt, Claim, Extension, Grant, Recording, Release, Renewal, Reservation,
    Reserved, Withdrawals,
};
use lock_core::{
    BackendError, Contention, FencingToken, Finding, Holder, Label, LockError, LockName, LockState,
    Occurrence, Outcome, OwnerId, RecordedRun, Ttl, Whom,
};
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
use crate::runs::Runs;
use crate::sockets::{Sockets, Told};
use crate::state_file::{StateFile, StateOf};

/// Extension of a lock's file.
const EXTENSION: &str = "lock";

/// Number of releases for one sweep.
const RELEASES_A_SWEEP: u64 = 64;

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
        let (ttl, now) = (renewal.ttl.as_duration(), lock.now().uptime);
        if !lock.holds.extend(renewal.owner, renewal.token, ttl, now) {
            return Ok(Extension::Lost);
        }
        lock.write()?;
        Ok(Extension::Extended(ttl))
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
        let is_held = lock.holds.of(hold.owner).is_some();
        let goes_on = is_held && !(hold.yields && lock.is_waited_for()?);
        match goes_on.then(|| lock.reserve(hold.tokens)).flatten() {
            Some(tokens) => lock.write().map(|()| Reserved::Tokens(tokens)),
            None => self.end(lock, hold.owner).map(Reserved::Ended),
        }
    }

    fn end(&self, mut lock: Lock, owner: OwnerId) -> Result<Release, BackendError> {
        if !lock.holds.end(owner) {
            return Ok(Release::NotHeld);
        }
        self.tell(lock.pass_on()?);
        let (dice, _) = Uuid::new_v4().as_u64_pair();
        if dice.is_multiple_of(RELEASES_A_SWEEP) {
            self.sweep((dice >> 60) as u32);
        }
        Ok(Release::Released)
    }

    /// Removes the files of locks that were unused for a week, but only those whose digest begins with this digit: a
    /// sixteenth of all, so that no release takes long. A file that cannot be removed is left to a later sweep.
    pub(crate) fn sweep(&self, digit: u32) {
        let begins = |path: &PathBuf| {
            let name = path.file_name().and_then(OsStr::to_str);
            name.is_some_and(|name| name.starts_with(char::from_digit(digit, 16).unwrap_or('0')))
        };
        let is_old = |path: &PathBuf| {
            let changed = path.metadata().and_then(|file| file.modified()).ok();
            changed.and_then(|changed| changed.elapsed().ok()).is_some_and(|age| age > IDLE)
        };
        let files = self.files().unwrap_or_default().into_iter();
        for path in files.filter(begins).filter(is_old) {
            _ = self.remove_if_unused(path);
        }
    }

    /// Removes the file under its own file lock: a process that waits for it finds the file deleted, and creates it
    /// anew.
    fn remove_if_unused(&self, path: PathBuf) -> Result<(), BackendError> {
        let state_file = StateFile { path, of: StateOf::UnknownLock };
        let Some(file) = LockedFile::find(&state_file, LockTimeout::new())? else { return Ok(()) };
        let Some(record) = file.value().and_then(Record::decode) else { return Ok(()) };
        let is_its_own = self.path_of(&record.name) == state_file.path;
        let lock = Lock::recorded(record, file, self.machine.now())?;
        if is_its_own && lock.is_forgettable()? {
            // A later sweep removes files that stay.
            _ = std::fs::remove_file(&state_file.path);
        }
        Ok(())
    }

    /// Keeps all others out for `delay`, with an owner that nobody has (C41).
    pub(crate) fn release_after(
        &self,
        name: &LockName,
        owner: OwnerId,
        delay: Ttl,
    ) -> Result<Release, BackendError> {
        let Some(mut lock) = self.find(name, LockTimeout::new())? else {
            return Ok(Release::NotHeld);
        };
        let now = lock.now().uptime;
        if !lock.holds.retire(owner, delay.as_duration(), now) {
            return Ok(Release::NotHeld);
        }
        lock.write()?;
        Ok(Release::Released)
    }

    /// C42: the lock's file is locked from the check to the record, so that nobody is granted the lock in between.
    /// The record's text is written before, since a disk may be slow.
    pub(crate) fn record(
        &self,
        record: &backend::Record,
        caller: &Caller,
    ) -> Result<Recording, BackendError> {
        let runs = Runs::of(&self.path, &record.name);
        let written = runs.write(record, &self.machine.now())?;
        let Some(lock) = self.find(&record.name, LockTimeout::new())? else {
            return Ok(Recording::Lost);
        };
        caller.check()?;
        if !lock.holds.has(record.owner, record.token) {
            return Ok(Recording::Lost);
        }
        let placed = written.put_in_place()?;
        runs.sweep(lock.now());
        // Syncs without the file lock, since a disk may be slow.
        drop(lock);
        placed.sync()?;
        Ok(Recording::Recorded)
    }

    pub(crate) fn recorded(
        &self,
        name: &LockName,
        occurrence: &Occurrence,
    ) -> Result<Option<FencingToken>, BackendError> {
        Runs::of(&self.path, name).find(occurrence, &self.machine.now())
    }

    pub(crate) fn runs(&self, name: &LockName) -> Vec<RecordedRun> {
        Runs::of(&self.path, name).all(&self.machine.now())
    }

    /// The lock's file is locked meanwhile, so that nobody records the run again in between.
    pub(crate) fn forget(
        &self,
        name: &LockName,
        occurrence: &Occurrence,
    ) -> Result<bool, BackendError> {
        let _lock = self.find(name, LockTimeout::new())?;
        Runs::of(&self.path, name).forget(occurrence, &self.machine.now())
    }

    /// C19: remembers the withdrawals first. A later attempt is then refused, and the following steps undo an earlier
    /// one.
    pub(crate) fn withdraw(&self, name: &LockName, owners: &[OwnerId]) -> Result<(), BackendError> {
        let now = self.machine.now().uptime;
        owners.iter().for_each(|owner| self.withdrawn().remember(*owner, now));
        let Some(mut lock) = self.find(name, LockTimeout::new())? else {
            return Ok(());
        };
        for &owner in owners {
            lock.holds.end(owner);
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
            if self.sockets.tell(next.socket, &next.message) == Told::Nobody {
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
        if lock.holds.of(owner) != Some(&granted.held) {
            return Ok(Vec::new());
        }
        lock.holds.end(owner);
        lock.pass_on()
    }

    pub(crate) fn inspect(&self, name: &LockName) -> Result<LockState, BackendError> {
        match self.find(name, LockTimeout::new())? {
            Some(lock) => state(&lock),
            None => Ok(LockState::new(name.clone(), None, Some(0))),
        }
    }

    pub(crate) fn list(&self, prefix: &str, limit: usize) -> Result<Vec<LockState>, BackendError> {
        let (mut states, mut unreadable, mut stuck) = (Vec::new(), Vec::new(), None);
        for path in self.files()? {
            // The listing waits once at most for a file that another process keeps locked.
            let timeout = if stuck.is_none() { LockTimeout::new() } else { LockTimeout::none() };
            // S3: a file that cannot be read may be of a held lock, and must not hide others.
            match self.state_in(&path, timeout) {
                Ok(state) => states.extend(state),
                Err(error) if error.is_transient() => stuck = stuck.or(Some(error)),
                Err(error) => unreadable.push(unread(&path).ok_or(error)?),
            }
        }
        let mut states = LockState::listed(states, prefix, limit);
        unreadable.truncate(limit - states.len());
        states.extend(unreadable);
        match stuck {
            None => Ok(states),
            Some(error) => Err(BackendError::incomplete(BACKEND, states, &[error])),
        }
    }

    pub(crate) fn evict(&self, name: &LockName, whom: &Whom) -> Result<Vec<Holder>, BackendError> {
        let Some(mut lock) = self.find(name, LockTimeout::new())? else {
            return Ok(Vec::new());
        };
        let now = lock.now().uptime;
        let ended = lock.holds.evict(whom, now);
        if !ended.is_empty() {
            self.tell(lock.pass_on()?);
        }
        Ok(ended)
    }

    /// Checks again: the state may have changed since the directory was opened.
    pub(crate) fn doctor(&self) -> Vec<Finding> {
        let mount = match FileSystem::default().refuse_foreign(&self.path) {
            Ok(()) => Finding::good("mount", "the directory is on a local file system"),
            Err(_) if self.file_system == FileSystem::SaidToBeLocal => Finding::risk(
                "mount",
                "the URL says that the file system is local, which it is not known to be",
                "see that no other machine can reach the directory, or use a local one",
            ),
            Err(error) => Finding::risk("mount", error.to_string(), "use a local directory"),
        };
        let rights = match platform::check_folder(&self.path) {
            Ok(()) => Finding::good("rights", "this user alone may write the directory"),
            Err(error) => Finding::risk(
                "rights",
                format!("the directory cannot be used: {error}"),
                "run as its owner, or choose another directory",
            ),
        };
        vec![mount, rights, self.machine.examined()]
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

    /// Returns the lock in the file at `path`. `None` if the file never had one, or if it is not the file of the lock
    /// that it names, such as a copy. Unknown content may be a lock, and is an error.
    fn state_in(
        &self,
        path: &Path,
        timeout: LockTimeout,
    ) -> Result<Option<LockState>, BackendError> {
        let state_file = StateFile { path: path.to_owned(), of: StateOf::UnknownLock };
        let Some(file) = LockedFile::find(&state_file, timeout)? else {
            return Ok(None);
        };
        let Some(value) = file.value() else { return Ok(None) };
        match Record::decode(value) {
            None => Err(fault::no_record(&state_file)),
            Some(record) if self.path_of(&record.name) == state_file.path => {
                state(&Lock::recorded(record, file, self.machine.now())?).map(Some)
            }
            Some(_) => Ok(None),
        }
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
        let (ttl, now) = (claim.ttl.as_duration(), lock.now().uptime);
        // C16: a repeated request finds its own grant, with the same token and slots.
        if let Some(own) = lock.holds.of_mut(claim.owner) {
            own.last_at_least(now, ttl);
            return Ok(Attempt::Granted(Grant::new(own.token, ttl).with_slots(own.slots.clone())));
        }
        match lock.admission(claim) {
            Admission::Fits(slots) => lock.grant(claim, slots).map(Attempt::Granted),
            Admission::Waits => self.queue_up(lock, claim, queueing).map(Attempt::Busy),
            Admission::Conflicts(held) => {
                lock.leave(claim.owner)?;
                Err(BackendError::conflict(BACKEND, claim.kind.permits(), held))
            }
        }
    }

    /// Gives `claim` a place in the queue if it wants one, and returns the answer for it.
    fn queue_up(
        &self,
        lock: &mut Lock,
        claim: &Claim,
        queueing: Queueing,
    ) -> Result<Contention, BackendError> {
        let socket = match queueing {
            Queueing::No => None,
            Queueing::Polling => Some(None),
            Queueing::Listening(socket) => Some(Some(socket)),
        };
        let mut seen = lock.holds.contention(lock.now().uptime);
        seen.at = Some(lock.now().server_time());
        if let Some(socket) = socket {
            let known = self.places().get(&claim.owner).copied();
            let (place, before) = lock.join(claim, socket, known)?;
            let mut places = self.places();
            // R4: dead waiters are removed before the map grows.
            if places.len() == places.capacity() {
                places.retain(|_, place| place.is_alive(lock.now()));
            }
            places.insert(claim.owner, place);
            seen.position = Some(before);
        }
        Ok(seen)
    }

    fn places(&self) -> MutexGuard<'_, HashMap<OwnerId, Place>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
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

/// Returns a file that cannot be read as a lock, by its path.
fn unread(path: &Path) -> Option<LockState> {
    let mut holder = Holder::foreign(None);
    holder.label = Label::new("a file that is not understood").ok()?;
    Some(LockState::new(LockName::new(path.to_str()?).ok()?, [holder], None))
}

fn state(lock: &Lock) -> Result<LockState, BackendError> {
    let holders = lock.holds.seen_at(lock.now().uptime);
    Ok(LockState::new(lock.name().clone(), holders, Some(lock.waiters()?)))
}

fn is_lock_file(path: &Path) -> bool {
    let digest = path.file_stem().map_or(0, |stem| stem.len());
    digest == DIGITS && path.extension().is_some_and(|end| end == EXTENSION)
}

#[cfg(test)]
mod tests;
