//! The events that a process sees, one a line.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use super::clock::now;
use super::note::{Event, Note, Number};

/// Ending of the name of a journal.
pub(super) const ENDING: &str = "jsonl";

/// A file of events. Events before a kill stay in it.
#[derive(Debug)]
pub(super) struct Journal {
    who: String,
    file: File,
    numbers: AtomicU64,
}

impl Journal {
    pub(super) fn open(folder: &Path, who: &str) -> Self {
        let path = folder.join(format!("{who}.{ENDING}"));
        let file = OpenOptions::new().create(true).append(true).open(path);
        let numbers = AtomicU64::new(1);
        Self { who: who.to_owned(), file: file.expect("the folder can be written"), numbers }
    }

    /// Notes an event of this moment.
    pub(super) fn note(&self, event: Event) {
        let note = Note { at: now(), who: self.who.clone(), event };
        let mut line = serde_json::to_string(&note).expect("a note is JSON");
        line.push('\n');
        // One write a line, so that a kill leaves no half line.
        (&self.file).write_all(line.as_bytes()).expect("the file can be written");
    }

    /// Returns a number that is unique in this journal.
    pub(super) fn number(&self) -> Number {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }
}
