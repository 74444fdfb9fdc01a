//! Operations for operators: inspection, listing, eviction, examination.

use std::path::Path;
use std::time::{Duration, Instant};

use lock_core::{BackendError, Finding, Holder, Label, LockName, LockState, Whom};

use super::Directory;
use crate::fault::{self, BACKEND};
use crate::lock::Lock;
use crate::locked_file::{LockTimeout, LockedFile};
use crate::path::FileSystem;
use crate::platform;
use crate::record::Record;
use crate::state_file::{StateFile, StateOf};

/// Longest time of a listing: less than the time-out of a request, so that an incomplete listing shows what was read.
const LONGEST_LISTING: Duration = Duration::from_millis(1500);

impl Directory {
    pub(crate) fn inspect(&self, name: &LockName) -> Result<LockState, BackendError> {
        match self.find(name, LockTimeout::new())? {
            Some(lock) => lock.state(),
            None => Ok(LockState::new(name.clone(), None, Some(0))),
        }
    }

    pub(crate) fn list(&self, prefix: &str, limit: usize) -> Result<Vec<LockState>, BackendError> {
        let (mut states, mut unreadable, mut stuck) = (Vec::new(), Vec::new(), None);
        let end = Instant::now() + LONGEST_LISTING;
        for path in self.files()? {
            if Instant::now() > end {
                stuck = Some(fault::too_many_files(LONGEST_LISTING));
                break;
            }
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
        let ended = lock.value.evict(whom, lock.now().reading());
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

    /// Returns the lock in the file at `path`, if it may be held. The file is not locked, so that a listing of many files
    /// is quick. If a change of the file makes it unreadable meanwhile, it is read again under its lock.
    fn state_in(
        &self,
        path: &Path,
        timeout: LockTimeout,
    ) -> Result<Option<LockState>, BackendError> {
        let state_file = StateFile { path: path.to_owned(), of: StateOf::UnknownLock };
        let peeked = LockedFile::peek(&state_file).and_then(|file| self.state_of(file));
        peeked.or_else(|_| match LockedFile::find(&state_file, timeout)? {
            Some(file) => self.state_of(file),
            None => Ok(None),
        })
    }

    /// Returns the lock in a file. `None` if nobody holds it, or if the file is not that of the lock that it names,
    /// such as a copy. Unknown content may be a lock, and is an error.
    fn state_of(&self, file: LockedFile) -> Result<Option<LockState>, BackendError> {
        let Some(value) = file.value() else { return Ok(None) };
        let record = Record::decode(value).ok_or_else(|| fault::no_record(file.state_file()))?;
        let is_held = record.table.is_some() || !record.value.holds().is_empty();
        if !is_held || self.path_of(&record.name) != file.state_file().path {
            return Ok(None);
        }
        Lock::recorded(record, file, self.machine.now())?.state().map(Some)
    }
}

/// Returns a file that cannot be read as a lock, by its path.
fn unread(path: &Path) -> Option<LockState> {
    let mut holder = Holder::foreign(None);
    holder.label = Label::new("a file that is not understood").ok()?;
    Some(LockState::new(LockName::new(path.to_str()?).ok()?, [holder], None))
}
