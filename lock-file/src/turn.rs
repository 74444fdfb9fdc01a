//! Turns of this process's threads at one file.
//!
//! A locked file is tried again and again, since the system has no lock with a time-out. So only one thread of the
//! process tries: hundreds of them would take the CPU from the thread that has the lock.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::time::Instant;

use foldhash::HashMap;
use parking_lot::lock_api::ArcMutexGuard;
use parking_lot::{Mutex, MutexGuard};
use parking_lot::{Mutex as FairMutex, RawMutex};

/// The files that threads of this process lock, or wait for. After a fork, the threads of the first process are none
/// of the new one.
static FILES: Mutex<Option<Files>> = Mutex::new(None);

type Files = HashMap<(u32, PathBuf), Arc<FairMutex<()>>>;

/// The turn of this thread at a file. The next thread has it when this is dropped.
pub(crate) struct Turn {
    file: (u32, PathBuf),
    guard: Option<ArcMutexGuard<RawMutex, ()>>,
}

impl Turn {
    /// Waits for the turn until `end`; `None` if it did not come.
    pub(crate) fn wait(path: &Path, end: Instant) -> Option<Self> {
        let file = (process::id(), path.to_owned());
        let mutex = files().get_or_insert_default().entry(file.clone()).or_default().clone();
        let guard = mutex.try_lock_arc_until(end);
        drop(mutex);
        let turn = Self { file, guard };
        turn.guard.is_some().then_some(turn)
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn").field("file", &self.file).finish_non_exhaustive()
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.guard = None;
        let mut files = files();
        let files = files.get_or_insert_default();
        if files.get(&self.file).is_some_and(|mutex| Arc::strong_count(mutex) == 1) {
            files.remove(&self.file);
        }
    }
}

fn files() -> MutexGuard<'static, Option<Files>> {
    FILES.lock()
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;

    fn is_known(path: &Path) -> bool {
        files().iter().flatten().any(|((_, known), _)| known == path)
    }

    #[test]
    fn c17_a_turn_is_waited_for_until_its_end() {
        let path = Path::new("/waited-for");
        let turn = Turn::wait(path, Instant::now()).expect("nobody has it");
        let end = Instant::now() + Duration::from_millis(20);
        assert!(Turn::wait(path, end).is_none());
        assert!(Instant::now() >= end);
        assert!(Turn::wait(Path::new("/another"), Instant::now()).is_some());
        drop(turn);
        assert!(Turn::wait(path, Instant::now()).is_some());
    }

    #[test]
    fn r4_a_file_without_threads_is_forgotten() {
        let path = Path::new("/crowded");
        let far = Instant::now() + Duration::from_secs(600);
        thread::scope(|scope| {
            for _ in 0..50 {
                scope.spawn(|| {
                    let _turn = Turn::wait(path, far).expect("a turn");
                    let late = Turn::wait(path, Instant::now());
                    assert!(late.is_none());
                });
            }
        });
        assert!(!is_known(path));
    }
}
