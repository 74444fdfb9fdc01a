//! Standard error, written by a thread of its own. A pipe that nobody reads, or a terminal that stands still, must stop
//! neither the renewals nor the end of a command whose lock is lost.

use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// Longest wait of a writer until its text is written.
const PATIENCE: Duration = Duration::from_millis(100);

/// Wait for a reader that has been away.
const GLANCE: Duration = Duration::from_millis(1);

/// Longest wait for all texts at the end of the process.
const LAST: Duration = Duration::from_secs(1);

/// Number of texts that wait for a reader. Further ones are dropped.
const QUEUED: usize = 256;

static WRITER: OnceLock<Option<SyncSender<Text>>> = OnceLock::new();

struct Text {
    bytes: Vec<u8>,
    written: SyncSender<()>,
}

/// Writes a text, and waits a moment for its end. After a text that was not read in time, others hardly wait, until the
/// reader has come back.
pub(crate) fn write(bytes: Vec<u8>) {
    static STUCK: AtomicBool = AtomicBool::new(false);
    let Some(writer) = WRITER.get_or_init(start) else {
        // The system gives no thread.
        return drop(io::stderr().write_all(&bytes));
    };
    let (written, is_written) = sync_channel(1);
    if writer.try_send(Text { bytes, written }).is_err() {
        return;
    }
    let patience = if STUCK.load(Ordering::Relaxed) { GLANCE } else { PATIENCE };
    let is_late = is_written.recv_timeout(patience).is_err();
    STUCK.store(is_late, Ordering::Relaxed);
}

/// Waits for the texts that are not written yet, at the end of the process: the writer ends with it.
pub(crate) fn finish() {
    let Some(Some(writer)) = WRITER.get() else { return };
    let (written, is_written) = sync_channel(1);
    if writer.try_send(Text { bytes: Vec::new(), written }).is_ok() {
        let _ = is_written.recv_timeout(LAST);
    }
}

fn start() -> Option<SyncSender<Text>> {
    let (texts, queued) = sync_channel::<Text>(QUEUED);
    let write_all = move || {
        for Text { bytes, written } in queued {
            // If it cannot be written, there is no other place for it.
            let _ = io::stderr().write_all(&bytes);
            let _ = written.send(());
        }
    };
    thread::Builder::new().name("stderr".into()).spawn(write_all).ok().map(|_| texts)
}

/// A line of the log. It is written when it is dropped.
pub(crate) struct Line(Vec<u8>);

pub(crate) fn line() -> Line {
    Line(Vec::new())
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if !self.0.is_empty() {
            write(std::mem::take(&mut self.0));
        }
    }
}
