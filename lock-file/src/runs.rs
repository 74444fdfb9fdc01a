//! The runs of a lock that ended well (C42): a small file for each, in a folder of the lock.
//!
//! ```text
//!   locks/ ─ {name}.lock          the lock, under whose file lock its runs are recorded
//!          └ runs/ ─ {name}/ ─ {occurrence}          what ran, under which token, and until when it is kept
//! ```
//!
//! Names and occurrences are digests, for the reason that the lock's file has one; the file says both in full.
//! Until when it is kept is told by the wall clock, since a record outlasts a boot.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use lock_core::backend::Record;
use lock_core::{BackendError, FencingToken, LockName, Occurrence, Outcome};
use uuid::Uuid;

use crate::digest::hex_digest;
use crate::fault;
use crate::machine::Now;
use crate::platform;
use crate::replacement::Replacement;
use crate::state_file::{StateFile, StateOf};

/// How many files of a lock are looked at when a further one is made, whether they are still to be kept: so
/// there are hardly more files than runs to remember, and no call takes long.
const SWEPT: usize = 16;

/// The runs of one lock.
pub(crate) struct Runs {
    folder: PathBuf,
    name: LockName,
}

/// What a file says of a run.
#[derive(Debug, PartialEq)]
struct Run {
    token: FencingToken,
    /// On the wall clock.
    forget_at_micros: u64,
}

impl Runs {
    pub(crate) fn of(directory: &Path, name: &LockName) -> Self {
        let folder = directory.join("runs").join(hex_digest(name.as_str()));
        Self { folder, name: name.clone() }
    }

    /// Writes what is to be said of a run, to be put in its place once it is known that it is so.
    pub(crate) fn write(&self, record: &Record, now: &Now) -> Result<Replacement, BackendError> {
        let made = platform::create_directory(&self.folder);
        made.map_err(|error| {
            fault::refused("create", &self.folder.display(), Outcome::NotApplied, error)
        })?;
        let forget_at = now.wall_micros.saturating_add(record.remember_millis() * 1000);
        let (name, occurrence) = (self.name.as_str(), record.occurrence.as_str());
        let text = format!("{name}\n{occurrence}\n{}\n{forget_at}", record.token);
        // A name of its own: an earlier request for the same run may be under way yet.
        let writer = self.folder.join(Uuid::new_v4().to_string());
        Replacement::write(&writer, &self.path_of(&record.occurrence), text.as_bytes())
    }

    /// The token of a run that is to be remembered.
    pub(crate) fn find(
        &self,
        occurrence: &Occurrence,
        now: &Now,
    ) -> Result<Option<FencingToken>, BackendError> {
        let of = StateOf::Run(self.name.clone());
        let file = StateFile { path: self.path_of(occurrence), of };
        let text = match fs::read_to_string(&file.path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(fault::refused("read", &file, Outcome::NotApplied, error)),
        };
        let start = format!("{}\n{}\n", self.name.as_str(), occurrence.as_str());
        let run = text.strip_prefix(&start).and_then(Run::decode);
        let run = run.ok_or_else(|| fault::unusable(&file, "it is not the record of this run"))?;
        Ok((!run.is_forgotten(now)).then_some(run.token))
    }

    /// Removes some files of runs that are to be forgotten. The file of the lock is locked meanwhile, so that
    /// nobody puts another in the place of one that was read.
    pub(crate) fn sweep(&self, now: &Now) {
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        let files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        // From anywhere on, so that all have their turn.
        let start = Uuid::new_v4().as_u128() % (files.len().max(1) as u128);
        for file in files.iter().cycle().skip(start as usize).take(SWEPT.min(files.len())) {
            let text = fs::read_to_string(file).unwrap_or_default();
            if Run::decode_whole(&text).is_some_and(|run| run.is_forgotten(now)) {
                // One that cannot be removed costs its room.
                let _ = fs::remove_file(file);
            }
        }
    }

    fn path_of(&self, occurrence: &Occurrence) -> PathBuf {
        self.folder.join(hex_digest(occurrence.as_str()))
    }
}

impl Run {
    /// Reads what stands behind the name and the occurrence.
    fn decode(text: &str) -> Option<Self> {
        let (token, forget_at) = text.split_once('\n')?;
        Some(Self { token: token.parse().ok()?, forget_at_micros: forget_at.parse().ok()? })
    }

    fn decode_whole(text: &str) -> Option<Self> {
        Self::decode(text.splitn(3, '\n').nth(2)?)
    }

    fn is_forgotten(&self, now: &Now) -> bool {
        self.forget_at_micros <= now.wall_micros
    }
}
