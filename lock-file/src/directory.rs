//! The locks in a directory: each operation once, as the thread sees it that does it.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use lock_core::backend::{Attempt, Claim, Extension, Grant, Release, Renewal, Withdrawals};
use lock_core::{BackendError, Finding, Holder, LockError, LockName, LockState, Outcome, OwnerId};
use sha2::{Digest, Sha256};

use crate::blocking::Caller;
use crate::fault::{self, BACKEND};
use crate::locked_file::{LockTimeout, LockedFile};
use crate::machine::{Machine, Now};
use crate::platform;
use crate::record::Record;
use crate::state_file::{StateFile, StateOf};

/// How the file of a lock ends.
const EXTENSION: &str = "lock";

/// A directory of locks.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    machine: Machine,
    /// C19: only this process has requests of these claims, so its memory is enough.
    withdrawn: Mutex<Withdrawals>,
}

impl Directory {
    /// Opens a directory, and makes it if it is not there.
    pub(crate) fn open(path: &Path, machine: Machine) -> Result<Self, LockError> {
        let path = &absolute(path)?;
        platform::create_directory(path).map_err(|error| unusable("create", path, error))?;
        refuse_network_mount(path)?;
        platform::check_rights(path).map_err(|error| unusable("read and write", path, error))?;
        Ok(Self { path: path.clone(), machine, withdrawn: Mutex::default() })
    }

    pub(crate) fn try_acquire(
        &self,
        claim: &Claim,
        caller: &Caller,
    ) -> Result<Attempt, BackendError> {
        let mut file = LockedFile::create(&self.state_file(&claim.name), LockTimeout::new())?;
        caller.check()?;
        self.refuse_withdrawn(claim)?;
        let found = record_of(&claim.name, &file)?;
        let now = self.machine.now();
        let record = match found {
            // C16: a repeat finds its own grant, with the same token.
            Some(own) if own.is_held_by(claim.owner, &now) => own.extended(claim.ttl, &now),
            Some(record) => match record.hold(&now) {
                Some(other) => return Ok(Attempt::Busy(other.contention(&now))),
                None => granted(Some(record), claim, &now)?,
            },
            None => granted(None, claim, &now)?,
        };
        file.replace(record.encode())?;
        Ok(Attempt::Granted(Grant::new(record.token, claim.ttl.as_duration())))
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
        let Some((mut file, record)) = self.find(name, LockTimeout::new())? else {
            return Ok(Release::NotHeld);
        };
        if !record.is_held_by(owner, &self.machine.now()) {
            return Ok(Release::NotHeld);
        }
        file.replace(record.released().encode())?;
        Ok(Release::Released)
    }

    /// C19: remembers the withdrawal first. An attempt that comes after the release is then refused, and
    /// an attempt that came before the release is undone by it.
    pub(crate) fn withdraw(&self, name: &LockName, owner: OwnerId) -> Result<(), BackendError> {
        self.withdrawn().remember(owner, self.machine.now().uptime);
        self.release(name, owner).map(drop)
    }

    pub(crate) fn inspect(&self, name: &LockName) -> Result<LockState, BackendError> {
        let found = self.find(name, LockTimeout::new())?;
        let holder = found.and_then(|(_, record)| record.holder(&self.machine.now()));
        Ok(LockState::new(name.clone(), holder, None))
    }

    pub(crate) fn list(&self, prefix: &str, limit: usize) -> Result<Vec<LockState>, BackendError> {
        let (mut held, timeout) = (Vec::new(), LockTimeout::new());
        for path in self.files()? {
            if let Some(record) = self.record_in(path, timeout)?
                && record.name.as_str().starts_with(prefix)
                && let Some(holder) = record.holder(&self.machine.now())
            {
                held.push(LockState::new(record.name, Some(holder), None));
            }
        }
        held.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        held.truncate(limit);
        Ok(held)
    }

    pub(crate) fn evict(&self, name: &LockName) -> Result<Option<Holder>, BackendError> {
        let Some((mut file, record)) = self.find(name, LockTimeout::new())? else {
            return Ok(None);
        };
        let ended = record.holder(&self.machine.now());
        if ended.is_some() {
            file.replace(record.released().encode())?;
        }
        Ok(ended)
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

    /// What the file at `path` says; `None` if it is not the file of the lock that it names, such as a
    /// copy that somebody made.
    fn record_in(
        &self,
        path: PathBuf,
        timeout: LockTimeout,
    ) -> Result<Option<Record>, BackendError> {
        let state_file = StateFile { path, of: StateOf::UnknownLock };
        let file = LockedFile::find(&state_file, timeout)?;
        let record = file.and_then(|file| file.value().and_then(Record::decode));
        Ok(record.filter(|record| self.path_of(&record.name) == state_file.path))
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

/// Refuses a path whose file locks another machine would not see, or not at once.
pub(crate) fn refuse_network_mount(path: &Path) -> Result<(), LockError> {
    let mount = platform::network_mount(path);
    match mount.map_err(|error| unusable("examine", path, error))? {
        None => Ok(()),
        Some(kind) => Err(LockError::Config {
            message: format!(
                "{} is on a network mount ({kind}): choose a directory on a local disk, \
                 or a backend with a server",
                path.display()
            ),
        }),
    }
}

/// The path that means the same file wherever the process goes.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf, LockError> {
    std::path::absolute(path).map_err(|error| unusable("find", path, error))
}

/// A path that cannot be used, at least not now.
pub(crate) fn unusable(doing: &str, path: &Path, error: std::io::Error) -> LockError {
    let what = format!("{}, which this user has to be able to write", path.display());
    let source = fault::refused(doing, &what, Outcome::NotApplied, error);
    LockError::Backend { operation: "open the locks", name: None, source }
}

fn granted(last: Option<Record>, claim: &Claim, now: &Now) -> Result<Record, BackendError> {
    let last = last.map(|record| record.token);
    Record::granted(last, claim, now).map_err(|error| {
        BackendError::permanent(BACKEND, Outcome::NotApplied, "out of tokens", error)
    })
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
    digest == 2 * Sha256::output_size() && path.extension().is_some_and(|end| end == EXTENSION)
}

pub(crate) fn hex_digest(bytes: impl AsRef<[u8]>) -> String {
    let digest = Sha256::digest(bytes.as_ref());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
