//! Operations for operators: inspection, listing, eviction, examination.

use std::path::Path;

use lock_core::{BackendError, Finding, Holder, Label, LockName, LockState, Whom};

use super::Directory;
use crate::fault::{self, BACKEND};
use crate::lock::Lock;
use crate::locked_file::{LockTimeout, LockedFile};
use crate::path::FileSystem;
use crate::platform;
use crate::record::Record;
use crate::state_file::{StateFile, StateOf};

impl Directory {
    pub(crate) fn inspect(&self, name: &LockName) -> Result<LockState, BackendError> {
        match self.find(name, LockTimeout::new())? {
            Some(lock) => lock.state(),
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
                Lock::recorded(record, file, self.machine.now())?.state().map(Some)
            }
            Some(_) => Ok(None),
        }
    }
}

/// Returns a file that cannot be read as a lock, by its path.
fn unread(path: &Path) -> Option<LockState> {
    let mut holder = Holder::foreign(None);
    holder.label = Label::new("a file that is not understood").ok()?;
    Some(LockState::new(LockName::new(path.to_str()?).ok()?, [holder], None))
}
