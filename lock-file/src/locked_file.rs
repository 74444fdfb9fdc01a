//! A value in a file, read and changed under the operating system's lock on that file.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use lock_core::{BackendError, Outcome};

use crate::fault::{self, Place};
use crate::platform;
use crate::slots::{self, FILE_BYTES, Version};

/// How long an operation waits for others inside their critical sections, which take some tens of
/// microseconds: whoever is slower was stopped, and nobody knows for how long.
const PATIENCE: Duration = Duration::from_millis(250);

/// The same for sections that sync to the disk, which takes seconds on a busy one.
const PATIENCE_WITH_DISK: Duration = Duration::from_secs(5);

/// The first pause between tries; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_micros(50);

/// No pause between tries is longer.
const LONGEST_PAUSE: Duration = Duration::from_millis(1);

/// When an operation stops waiting for others. One patience serves a whole batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    span: Duration,
    end: Instant,
}

impl Patience {
    /// For sections that only the processor takes part in.
    pub(crate) fn new() -> Self {
        Self::of(PATIENCE)
    }

    /// For sections that wait for the disk.
    pub(crate) fn with_disk() -> Self {
        Self::of(PATIENCE_WITH_DISK)
    }

    fn of(span: Duration) -> Self {
        Self { span, end: Instant::now() + span }
    }

    fn is_over(self) -> bool {
        Instant::now() >= self.end
    }
}

/// What to do about a file that is not there.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Absent {
    Create,
    Leave,
}

/// A file that is locked for as long as this lives, and the value in it.
#[derive(Debug)]
pub(crate) struct LockedFile {
    place: Place,
    file: File,
    version: Option<Version>,
}

impl LockedFile {
    /// Makes a file if it is not there, and sees that it can be read and written.
    pub(crate) fn make(path: &Path) -> io::Result<()> {
        open(path, Absent::Create).map(drop)
    }

    /// Opens and locks a file, which is created if it is not there.
    pub(crate) fn create(place: &Place, patience: Patience) -> Result<Self, BackendError> {
        let file = lock_current(place, Absent::Create, patience);
        let file = file.map_err(|error| error.into_backend(place))?;
        Self::read(place, file)
    }

    /// Opens and locks a file; `None` if it is not there.
    pub(crate) fn find(place: &Place, patience: Patience) -> Result<Option<Self>, BackendError> {
        match lock_current(place, Absent::Leave, patience) {
            Ok(file) => Self::read(place, file).map(Some),
            Err(Unlocked::Open(error)) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into_backend(place)),
        }
    }

    fn read(place: &Place, file: File) -> Result<Self, BackendError> {
        // Made first, so that the file is unlocked whatever its content.
        let mut locked = Self { place: place.clone(), file, version: None };
        let mut bytes = Vec::with_capacity(FILE_BYTES);
        let mut content = (&locked.file).take(FILE_BYTES as u64);
        content
            .read_to_end(&mut bytes)
            .map_err(|error| fault::refused("read", place, Outcome::NotApplied, error))?;
        locked.version = slots::newest(&bytes)
            .map_err(|_| fault::unusable(place, "neither of its records is whole"))?;
        Ok(locked)
    }

    /// The value; `None` if none was ever written.
    pub(crate) fn value(&self) -> Option<&[u8]> {
        self.version.as_ref().map(|version| &*version.payload)
    }

    /// The file, as messages call it.
    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// Replaces the value, by one write.
    ///
    /// After an error the outcome is unknown: all that counts may have been written.
    pub(crate) fn replace(&mut self, payload: Vec<u8>) -> Result<(), BackendError> {
        let sequence = self.version.as_ref().map_or(0, |old| old.sequence + 1);
        let version = Version { sequence, payload };
        let (offset, slot) = slots::encode(&version);
        self.write_at(offset, &slot)
            .map_err(|error| fault::refused("write", &self.place, Outcome::Unknown, error))?;
        self.version = Some(version);
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(offset))?;
        file.write_all(bytes)
    }

    /// Makes the value outlast a crash of the machine.
    pub(crate) fn sync(&self) -> Result<(), BackendError> {
        let synced = self.file.sync_data();
        synced.map_err(|error| fault::refused("sync", &self.place, Outcome::Unknown, error))
    }
}

impl Drop for LockedFile {
    /// Closing would not do: a child that was forked a moment ago has the file open until it
    /// executes its program, and would keep it locked.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

/// Why a file could not be locked.
#[derive(Debug)]
enum Unlocked {
    Open(io::Error),
    Lock(io::Error),
    Stuck(Duration),
}

impl Unlocked {
    fn into_backend(self, place: &Place) -> BackendError {
        match self {
            Self::Open(error) => fault::refused("open", place, Outcome::NotApplied, error),
            Self::Lock(error) => fault::refused("lock", place, Outcome::NotApplied, error),
            Self::Stuck(waited) => fault::stuck(place, waited),
        }
    }
}

/// Locks the file that has the path now.
///
/// One that was deleted between opening and locking belongs to nobody any more: the others open
/// the one that took its place.
fn lock_current(place: &Place, absent: Absent, patience: Patience) -> Result<File, Unlocked> {
    loop {
        let file = open(&place.path, absent).map_err(Unlocked::Open)?;
        lock(&file, patience)?;
        let metadata = file.metadata().map_err(Unlocked::Lock)?;
        if !platform::is_deleted(&metadata) {
            return Ok(file);
        }
    }
}

fn open(path: &Path, absent: Absent) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    options.create(absent == Absent::Create);
    platform::make_private(&mut options).open(path)
}

fn lock(file: &File, patience: Patience) -> Result<(), Unlocked> {
    let mut pause = FIRST_PAUSE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(Unlocked::Lock(error)),
            Err(TryLockError::WouldBlock) if patience.is_over() => {
                return Err(Unlocked::Stuck(patience.span));
            }
            Err(TryLockError::WouldBlock) => thread::sleep(pause),
        }
        pause = LONGEST_PAUSE.min(pause * 2);
    }
}
