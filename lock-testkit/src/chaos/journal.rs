//! The events that a process sees, one a line.

use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use super::clock::now;

/// A file of events. Events before a kill stay in it.
#[derive(Debug)]
pub(super) struct Journal {
    who: String,
    file: File,
    numbers: AtomicU64,
}

impl Journal {
    pub(super) fn open(folder: &Path, who: &str) -> Self {
        let path = folder.join(format!("{who}.history"));
        let file = OpenOptions::new().create(true).append(true).open(path);
        let numbers = AtomicU64::new(1);
        Self { who: who.to_owned(), file: file.expect("the folder can be written"), numbers }
    }

    /// Notes an event of this moment.
    pub(super) fn note(&self, event: impl Display) {
        // One write a line, so that a kill leaves no half line.
        let line = format!("{} {} {event}\n", now(), self.who);
        (&self.file).write_all(line.as_bytes()).expect("the file can be written");
    }

    /// Returns a number that is unique in this journal.
    pub(super) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }
}
