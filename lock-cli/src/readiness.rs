//! Tells a supervisor that a command leads.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use leasehold::FencingToken;
use sd_notify::NotifyState;

use crate::exit::{Exit, Failure};

/// The file of `--ready-file`, which exists while the command leads, and the state of a systemd unit.
pub(crate) struct Readiness {
    file: Option<PathBuf>,
}

/// Shows the readiness until it is dropped.
pub(crate) struct Ready<'a>(&'a Readiness);

impl Readiness {
    /// Removes the file of a former process that was killed.
    pub(crate) fn new(file: Option<&Path>) -> Result<Self, Failure> {
        let readiness = Self { file: file.map(Path::to_owned) };
        readiness.remove_file().map_err(|error| readiness.failed(&error))?;
        Ok(readiness)
    }

    /// Writes the term into the file, and tells systemd.
    pub(crate) fn begin(&self, term: FencingToken) -> Result<Ready<'_>, Failure> {
        // From now on the file is removed in any case.
        let ready = Ready(self);
        if let Some(file) = &self.file {
            // A new file: somebody else may have put a link in its place, and the file behind the link is not ours.
            let made = self.remove_file().and_then(|()| File::create_new(file));
            let written = made.and_then(|mut made| writeln!(made, "{term}"));
            written.map_err(|error| self.failed(&error))?;
        }
        tell(&[NotifyState::Ready, NotifyState::Status(&format!("leads in term {term}"))]);
        Ok(ready)
    }

    fn remove_file(&self) -> io::Result<()> {
        match self.file.as_ref().map(fs::remove_file) {
            Some(Err(error)) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn failed(&self, error: &io::Error) -> Failure {
        let file = self.file.as_deref().unwrap_or(Path::new("")).display();
        Failure::new(Exit::Output, format!("--ready-file {file}: {error}"))
    }
}

impl Drop for Ready<'_> {
    fn drop(&mut self) {
        // Who reads the file learns no more than that this process led.
        let _ = self.0.remove_file();
        tell(&[NotifyState::Status("a candidate")]);
    }
}

/// Sends states to the service manager that has started this process, if any.
fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "systemd cannot be told");
    }
}
