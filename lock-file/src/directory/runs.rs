//! Runs once: records beside the locks.

use lock_core::backend::{Record, Recording};
use lock_core::{BackendError, LockName, Occurrence, RecordedRun};

use super::Directory;
use crate::blocking::Caller;
use crate::locked_file::LockTimeout;
use crate::runs::Runs;

impl Directory {
    /// C42: the lock's file is locked from the check to the record, so that nobody is granted the lock in between.
    /// The record's text is written before, since a disk may be slow.
    pub(crate) fn record(
        &self,
        record: &Record,
        caller: &Caller,
    ) -> Result<Recording, BackendError> {
        let runs = Runs::of(&self.path, &record.name);
        let written = runs.write(record, &self.machine.now())?;
        let Some(mut lock) = self.find(&record.name, LockTimeout::new())? else {
            return Ok(Recording::Lost);
        };
        caller.check()?;
        if !lock.value.has(record.owner, record.token, lock.now().reading()) {
            return Ok(Recording::Lost);
        }
        let placed = written.put_in_place()?;
        runs.sweep(lock.now());
        // Syncs without the file lock, since a disk may be slow.
        drop(lock);
        placed.sync()?;
        Ok(Recording::Recorded)
    }

    pub(crate) fn runs(
        &self,
        name: &LockName,
        of: Option<&Occurrence>,
    ) -> Result<Vec<RecordedRun>, BackendError> {
        let (runs, now) = (Runs::of(&self.path, name), self.machine.now());
        let Some(of) = of else { return runs.all(&now) };
        let run = runs.find(of, &now)?.map(|token| RecordedRun::new(of.clone(), token));
        Ok(run.into_iter().collect())
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
}
