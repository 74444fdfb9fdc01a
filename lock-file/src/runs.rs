//! The recorded runs of a lock (C42): a small file for each, in a folder of the lock.
//!
//! ```text
//!   locks/ ─ {name}.lock          the lock, under whose file lock its runs are recorded
//!          └ runs/ ─ {name}/ ─ {occurrence}          what ran, under which token, and until when it is kept
//! ```
//!
//! File names are digests of names and occurrences, for the same reason as the lock's file name; the file has both in
//! full. The wall clock decides when a record is outdated, since a record outlasts a boot.

use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use lock_core::backend::Record;
use lock_core::{BackendError, FencingToken, LockName, Occurrence, Outcome, RecordedRun};
use uuid::Uuid;

use crate::creation::Creation;
use crate::digest::hex_digest;
use crate::fault;
use crate::machine::Now;
use crate::platform;
use crate::replacement::{Privacy, Replacement};
use crate::state_file::{StateFile, StateOf};

/// The folder of all runs in a directory of locks.
const RUNS: &str = "runs";

/// Number of files of a lock that are checked when a new one is made, to remove outdated ones: so there are hardly
/// more files than records to keep, and no call takes long.
const SWEPT: usize = 16;

/// The runs of one lock.
pub(crate) struct Runs {
    directory: PathBuf,
    folder: PathBuf,
    name: LockName,
}

/// The first line of a file: its format. A later format has another mark, and is not read.
const MARK: &str = "run-1";

/// Content of a run's file.
#[derive(Debug, PartialEq)]
struct Run {
    token: FencingToken,
    /// The end of the record on the wall clock.
    forget_at_micros: u64,
}

impl Runs {
    pub(crate) fn of(directory: &Path, name: &LockName) -> Self {
        let folder = directory.join(RUNS).join(hex_digest(name.as_str()));
        Self { directory: directory.to_owned(), folder, name: name.clone() }
    }

    /// Writes the record of a run beside its place. It is put in place once the run is confirmed.
    pub(crate) fn write(&self, record: &Record, now: &Now) -> Result<Replacement, BackendError> {
        self.make_folder().map_err(|error| {
            fault::refused("use", &self.folder.display(), Outcome::NotApplied, error)
        })?;
        let forget_at = now.wall_micros.saturating_add(record.remember_millis() * 1000);
        let (name, occurrence) = (self.name.as_str(), record.occurrence.as_str());
        let text = format!("{MARK}\n{name}\n{occurrence}\n{}\n{forget_at}", record.token);
        // A name of its own: an earlier request for the same run may still be in progress.
        let writer = Uuid::new_v4().to_string();
        let target = self.path_of(&record.occurrence);
        Replacement::write(&writer, &target, text.as_bytes(), Privacy::Private)
    }

    /// Creates the folder if it is missing, private as all folders of a directory of locks. It is on the disk then:
    /// another process may have created it without that a moment ago.
    fn make_folder(&self) -> io::Result<()> {
        let runs = self.directory.join(RUNS);
        for folder in [&runs, &self.folder] {
            platform::create_directory(folder)?;
            platform::check_folder(folder)?;
        }
        platform::sync_folder(&runs)?;
        platform::sync_folder(&self.directory)
    }

    /// Returns the token of a run whose record is not outdated.
    pub(crate) fn find(
        &self,
        occurrence: &Occurrence,
        now: &Now,
    ) -> Result<Option<FencingToken>, BackendError> {
        let of = StateOf::Run(self.name.clone());
        let file = StateFile { path: self.path_of(occurrence), of };
        let text = match read(&file) {
            Ok(text) => text,
            // C15: without the directory nothing is known.
            Err(error) if error.kind() == ErrorKind::NotFound && self.directory.exists() => {
                return Ok(None);
            }
            Err(error) => return Err(fault::refused("read", &file, Outcome::NotApplied, error)),
        };
        let start = format!("{MARK}\n{}\n{}\n", self.name.as_str(), occurrence.as_str());
        let run = str::from_utf8(&text).ok().and_then(|text| text.strip_prefix(&start));
        let run = run.and_then(Run::decode);
        let run = run.ok_or_else(|| fault::unusable(&file, "it is not the record of this run"))?;
        Ok((!run.is_forgotten(now)).then_some(run.token))
    }

    /// Removes the record of a run. Returns false if there is none.
    pub(crate) fn forget(&self, occurrence: &Occurrence, now: &Now) -> Result<bool, BackendError> {
        if self.find(occurrence, now)?.is_none() {
            return Ok(false);
        }
        let path = self.path_of(occurrence);
        let removed = fs::remove_file(&path).and_then(|()| platform::sync_folder(&self.folder));
        removed
            .map_err(|error| fault::refused("remove", &path.display(), Outcome::Unknown, error))?;
        Ok(true)
    }

    /// Returns the runs whose records are not outdated. A file that is no record is skipped.
    pub(crate) fn all(&self, now: &Now) -> Result<Vec<RecordedRun>, BackendError> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|error| {
                fault::refused("list", &self.folder.display(), Outcome::NotApplied, error)
            })?,
        };
        let files = entries.flatten().map(|entry| entry.path());
        let recorded = |path: PathBuf| {
            let run = recorded(&self.read_whole(path.clone())?, now)?;
            // A process that was killed leaves a file that was never put in place.
            (self.path_of(&run.occurrence) == path).then_some(run)
        };
        Ok(files.filter_map(recorded).collect())
    }

    fn read_whole(&self, path: PathBuf) -> Option<String> {
        let found = StateFile { path, of: StateOf::Run(self.name.clone()) };
        read(&found).ok().and_then(|text| String::from_utf8(text).ok())
    }

    /// Removes some files of outdated runs. The lock's file is locked meanwhile, so that nobody replaces a file that
    /// was just read.
    pub(crate) fn sweep(&self, now: &Now) {
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        let files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        // Starts at a random file, so that all have their turn.
        let start = Uuid::new_v4().as_u128() % (files.len().max(1) as u128);
        for file in files.iter().cycle().skip(start as usize).take(SWEPT.min(files.len())) {
            let run = self.read_whole(file.clone()).and_then(|text| Run::decode_whole(&text));
            if run.is_some_and(|run| run.is_forgotten(now)) {
                // A file that cannot be removed only costs its space.
                let _ = fs::remove_file(file);
            }
        }
    }

    fn path_of(&self, occurrence: &Occurrence) -> PathBuf {
        self.folder.join(hex_digest(occurrence.as_str()))
    }
}

impl Run {
    /// Parses the lines behind the name and the occurrence.
    fn decode(text: &str) -> Option<Self> {
        let (token, forget_at) = text.split_once('\n')?;
        Some(Self { token: token.parse().ok()?, forget_at_micros: forget_at.parse().ok()? })
    }

    fn decode_whole(text: &str) -> Option<Self> {
        let mut lines = text.splitn(4, '\n');
        let is_ours = lines.next() == Some(MARK);
        Self::decode(lines.nth(2).filter(|_| is_ours)?)
    }

    fn is_forgotten(&self, now: &Now) -> bool {
        self.forget_at_micros <= now.wall_micros
    }
}

/// Returns the run of a file, if its record is not outdated.
fn recorded(text: &str, now: &Now) -> Option<RecordedRun> {
    let run = Run::decode_whole(text).filter(|run| !run.is_forgotten(now))?;
    let occurrence = Occurrence::new(text.split('\n').nth(2)?).ok()?;
    Some(RecordedRun::new(occurrence, run.token))
}

fn read(file: &StateFile) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.open(Creation::Never)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Any file is the record of a run, or of none.
    #[test]
    fn fuzz_runs() {
        const WORDS: &[&str] =
            &["run-1\n", "a\n", "7\n", "1795251431457582", "\n", "run-2\n", "run-1\na\nmonday\n"];
        lock_fuzz::check(|parts| {
            let text = lock_fuzz::text(WORDS, parts);
            let Some(run) = Run::decode_whole(&text) else { return };
            let written = format!("{MARK}\na\nb\n{}\n{}", run.token, run.forget_at_micros);
            assert_eq!(Run::decode_whole(&written), Some(run));
        });
    }
}
