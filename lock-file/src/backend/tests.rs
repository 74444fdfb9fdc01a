//! The backend against the contract, and against damaged files.

mod clients;
mod files;
mod holds;
mod kinds;
mod later;
mod queue;
mod runs;
mod torn;
mod trust;

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, UNIX_EPOCH};

use lock_core::backend::{Attempt, ServerTime};
use lock_core::{FencingToken, LockClient, LockError, LockRequest, Outcome, Wait};
use tempfile::{TempDir, tempdir};
use tokio::time::{sleep, timeout};

use super::*;
use crate::testing::{TTL, claim, claim_of, granted, is_busy, on, renewal};

const ZERO: fn() -> Duration = || Duration::ZERO;

fn home() -> (TempDir, FileBackend) {
    let home = tempdir().expect("a directory");
    let lock = FileBackend::open(home.path()).expect("opens");
    (home, lock)
}

/// Like [`home`], with a clock that stands still: no waiter falls silent, however slow the machine is.
fn timeless() -> (TempDir, FileBackend) {
    let home = tempdir().expect("a directory");
    let lock = on(home.path(), "boot", ZERO, ZERO);
    (home, lock)
}

/// Returns the only file in the directory.
fn only_file(home: &TempDir) -> PathBuf {
    let mut entries = fs::read_dir(home.path()).expect("readable");
    let file = entries.next().expect("a file").expect("readable").path();
    assert!(entries.next().is_none(), "a single file");
    file
}
