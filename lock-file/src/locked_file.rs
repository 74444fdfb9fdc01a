//! A value in a file, read and changed under the operating system's lock on that file.

use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::thread;
use std::time::{Duration, Instant};

use lock_core::{BackendError, Outcome};

use crate::creation::Creation;
use crate::fault;
use crate::platform;
use crate::slots::{self, FILE_BYTES, Version};
use crate::state_file::StateFile;
use crate::turn::Turn;

/// Longest wait for others that are inside their critical sections. Such a section takes some tens of microseconds. A
/// process that takes longer was stopped, for an unknown time.
const LOCK_TIMEOUT: Duration = Duration::from_millis(250);

/// Longest wait for sections that sync to the disk, which takes seconds on a busy disk.
const LOCK_TIMEOUT_WITH_DISK: Duration = Duration::from_secs(5);

/// First pause between tries; it doubles after each further one.
const FIRST_PAUSE: Duration = Duration::from_micros(50);

/// Longest pause between tries.
const LONGEST_PAUSE: Duration = Duration::from_millis(1);

/// The time at which an operation stops waiting for file locks (C17). A batch has one time-out for all of its files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LockTimeout {
    span: Duration,
    end: Instant,
}

impl LockTimeout {
    /// Starts the time for sections that do not wait for the disk.
    pub(crate) fn new() -> Self {
        Self::of(LOCK_TIMEOUT)
    }

    /// Starts the time for sections that wait for the disk.
    pub(crate) fn with_disk() -> Self {
        Self::of(LOCK_TIMEOUT_WITH_DISK)
    }

    /// For a section that begins at once or not at all.
    pub(crate) fn none() -> Self {
        Self::of(Duration::ZERO)
    }

    fn of(span: Duration) -> Self {
        Self { span, end: Instant::now() + span }
    }

    fn is_over(self) -> bool {
        Instant::now() >= self.end
    }
}

/// A file that is locked while this lives, and its value.
#[derive(Debug)]
pub(crate) struct LockedFile {
    state_file: StateFile,
    file: File,
    /// Length of the file when it was locked, or of both slots if it was shorter.
    length: u64,
    version: Option<Version>,
    /// Ends after the file is unlocked.
    _turn: Option<Turn>,
}

impl LockedFile {
    /// Opens and locks a file; creates it if it is missing.
    pub(crate) fn create(
        state_file: &StateFile,
        timeout: LockTimeout,
    ) -> Result<Self, BackendError> {
        let file = lock_current(state_file, Creation::Create, timeout);
        let file = file.map_err(|error| error.into_backend(state_file))?;
        Self::read(state_file, file)
    }

    /// Opens and locks a file; `None` if it is missing from its folder. C15: without the folder nothing is known.
    pub(crate) fn find(
        state_file: &StateFile,
        timeout: LockTimeout,
    ) -> Result<Option<Self>, BackendError> {
        match lock_current(state_file, Creation::Never, timeout) {
            Ok(file) => Self::read(state_file, file).map(Some),
            Err(OpenError::Open(error))
                if error.kind() == ErrorKind::NotFound && state_file.has_folder() =>
            {
                Ok(None)
            }
            Err(error) => Err(error.into_backend(state_file)),
        }
    }

    /// Reads a file without locking it. Others may change it meanwhile, so that its parts may not fit together.
    pub(crate) fn peek(state_file: &StateFile) -> Result<Self, BackendError> {
        let file = state_file.open(Creation::Never).map_err(OpenError::Open);
        let file = file.map_err(|error| error.into_backend(state_file))?;
        Self::read(state_file, Locked { file, length: 0, turn: None })
    }

    /// Returns the [identity](platform::identity) of the file.
    pub(crate) fn identity(&self) -> Result<String, BackendError> {
        let metadata = self.file.metadata();
        let metadata =
            metadata.map_err(|error| self.refused("read", Outcome::NotApplied, error))?;
        Ok(platform::identity(&metadata, &self.state_file.path))
    }

    fn read(state_file: &StateFile, locked: Locked) -> Result<Self, BackendError> {
        let Locked { file, length, turn } = locked;
        // The value is made first, so that its drop unlocks the file, whatever the file contains.
        let mut locked =
            Self { state_file: state_file.clone(), file, length, version: None, _turn: turn };
        let mut bytes = Vec::with_capacity(FILE_BYTES);
        let mut content = (&locked.file).take(FILE_BYTES as u64);
        content
            .read_to_end(&mut bytes)
            .map_err(|error| locked.refused("read", Outcome::NotApplied, error))?;
        locked.version = slots::newest(&bytes)
            .map_err(|unusable| fault::unusable(state_file, unusable.why()))?;
        Ok(locked)
    }

    /// Returns the value; `None` if none was ever written.
    pub(crate) fn value(&self) -> Option<&[u8]> {
        self.version.as_ref().map(|version| &*version.payload)
    }

    /// Returns true if nothing was ever written.
    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns the file, as messages name it.
    pub(crate) fn state_file(&self) -> &StateFile {
        &self.state_file
    }

    /// Replaces the value, by one write.
    ///
    /// After an error the outcome is unknown: the complete record may have been written.
    pub(crate) fn replace(&mut self, payload: Vec<u8>) -> Result<(), BackendError> {
        let sequence = self.version.as_ref().map_or(0, |old| old.sequence + 1);
        let version = Version { sequence, payload };
        let (offset, mut slot) = slots::encode(&version);
        if self.length < FILE_BYTES as u64 {
            // The first write gives both slots their blocks, so that no later one needs a block of the disk.
            slot.resize(FILE_BYTES - offset as usize, 0);
        }
        self.write_at(offset, &slot)?;
        self.length = self.length.max(FILE_BYTES as u64);
        self.version = Some(version);
        Ok(())
    }

    /// Returns the content from `offset` on: `length` bytes, or fewer if the file ends there.
    pub(crate) fn read_at(&self, offset: u64, length: usize) -> Result<Vec<u8>, BackendError> {
        let (mut file, mut bytes) = (&self.file, Vec::with_capacity(length));
        file.seek(SeekFrom::Start(offset))
            .and_then(|_| file.take(length as u64).read_to_end(&mut bytes))
            .map_err(|error| self.refused("read", Outcome::NotApplied, error))?;
        Ok(bytes)
    }

    /// Writes `bytes` at `offset`.
    ///
    /// After an error the outcome is unknown: all bytes may have been written.
    pub(crate) fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), BackendError> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(offset))
            .and_then(|_| file.write_all(bytes))
            .map_err(|error| self.refused("write", Outcome::Unknown, error))
    }

    /// Cuts off the bytes behind the value, if the file was longer than `longest`. They have no use, so an error is
    /// ignored.
    pub(crate) fn cut_if_longer_than(&self, longest: u64) {
        if self.length > longest {
            let _ = self.file.set_len(FILE_BYTES as u64);
        }
    }

    fn refused(&self, doing: &str, outcome: Outcome, error: io::Error) -> BackendError {
        fault::refused(doing, &self.state_file, outcome, error)
    }

    /// Makes the value outlast a crash of the machine.
    pub(crate) fn sync(&self) -> Result<(), BackendError> {
        let synced = self.file.sync_data();
        synced.map_err(|error| self.refused("sync", Outcome::Unknown, error))
    }
}

impl Drop for LockedFile {
    /// Unlocks explicitly: a child process that was forked a moment ago has the file open until it executes its
    /// program, and would keep it locked.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

/// Reason why a file could not be opened and locked.
#[derive(Debug)]
enum OpenError {
    Open(io::Error),
    Lock(io::Error),
    TimedOut(Duration),
}

impl OpenError {
    fn into_backend(self, state_file: &StateFile) -> BackendError {
        match self {
            Self::Open(error) => fault::refused("open", state_file, Outcome::NotApplied, error),
            Self::Lock(error) => fault::refused("lock", state_file, Outcome::NotApplied, error),
            Self::TimedOut(waited) => fault::stuck(state_file, waited),
        }
    }
}

/// A file under its lock.
struct Locked {
    file: File,
    length: u64,
    turn: Option<Turn>,
}

/// Locks the file that is at the path now.
///
/// A file that was deleted between opening and locking has no path any more: others open the file that took its
/// place.
fn lock_current(
    state_file: &StateFile,
    creation: Creation,
    timeout: LockTimeout,
) -> Result<Locked, OpenError> {
    let turn = Turn::wait(&state_file.path, timeout.end);
    let turn = turn.ok_or(OpenError::TimedOut(timeout.span))?;
    loop {
        let file = state_file.open(creation).map_err(OpenError::Open)?;
        lock(&file, timeout)?;
        let metadata = file.metadata().map_err(OpenError::Lock)?;
        if platform::is_at(&metadata, &state_file.path) {
            return Ok(Locked { file, length: metadata.len(), turn: Some(turn) });
        }
        if timeout.is_over() {
            return Err(OpenError::TimedOut(timeout.span));
        }
    }
}

fn lock(file: &File, timeout: LockTimeout) -> Result<(), OpenError> {
    let mut pause = FIRST_PAUSE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(OpenError::Lock(error)),
            Err(TryLockError::WouldBlock) if timeout.is_over() => {
                return Err(OpenError::TimedOut(timeout.span));
            }
            Err(TryLockError::WouldBlock) => thread::sleep(pause),
        }
        pause = LONGEST_PAUSE.min(pause * 2);
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::state_file::StateOf;

    /// Returns how often this process has opened a file.
    fn opened(path: &Path) -> usize {
        let open = fs::read_dir("/proc/self/fd").expect("its files").flatten();
        open.filter(|file| fs::read_link(file.path()).is_ok_and(|to| to == path)).count()
    }

    /// P2: a backup of hard links keeps a name of each file that is swept.
    #[test]
    fn p2_a_removed_file_that_has_another_name_is_no_lock() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("a");
        let outside = File::create(&path).expect("made");
        outside.lock().expect("locked");
        let state_file = StateFile { path: path.clone(), of: StateOf::UnknownLock };
        let waiting = thread::spawn(move || {
            let _locked =
                LockedFile::create(&state_file, LockTimeout::with_disk()).expect("locked");
            state_file.path.exists()
        });
        while opened(&path) < 2 {
            thread::sleep(FIRST_PAUSE);
        }
        fs::hard_link(&path, home.path().join("backup")).expect("linked");
        fs::remove_file(&path).expect("removed");
        outside.unlock().expect("unlocked");
        assert!(waiting.join().expect("no panic"), "others open another file");
    }
}
