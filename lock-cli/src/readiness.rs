//! Tells a supervisor that a command leads.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt;
#[cfg(target_os = "linux")]
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};

use leasehold::FencingToken;
use tokio::sync::mpsc::UnboundedSender;

use crate::exit::{Exit, Failure};
use crate::hook::Change;

/// The file of `--ready-file`, which exists while the command leads, the state of a systemd unit, and the changes for
/// `--on-change`.
pub(crate) struct Readiness {
    file: Option<PathBuf>,
    changes: UnboundedSender<Change>,
}

/// Shows the readiness in a term until it is dropped.
pub(crate) struct Ready<'a>(&'a Readiness, FencingToken);

impl Readiness {
    /// Removes the file of a former process that was killed.
    pub(crate) fn new(
        file: Option<&Path>,
        changes: UnboundedSender<Change>,
    ) -> Result<Self, Failure> {
        let readiness = Self { file: file.map(Path::to_owned), changes };
        readiness.remove_file().map_err(|error| readiness.failed(&error))?;
        readiness.tell(Change::IsCandidate(None));
        Ok(readiness)
    }

    /// Writes the term into the file, and tells systemd.
    pub(crate) fn begin(&self, term: FencingToken) -> Result<Ready<'_>, Failure> {
        // From now on the file is removed in any case.
        let ready = Ready(self, term);
        if let Some(file) = &self.file {
            // A new file: somebody else may have put a link in its place, and the file behind the link is not ours.
            let made = self.remove_file().and_then(|()| File::create_new(file));
            let written = made.and_then(|mut made| writeln!(made, "{term}"));
            written.map_err(|error| self.failed(&error))?;
        }
        tell(&format!("READY=1\nSTATUS=leads in term {term}"));
        self.tell(Change::Leads(term));
        Ok(ready)
    }

    /// Queues a change. The hook may have ended with the process.
    fn tell(&self, change: Change) {
        let _ = self.changes.send(change);
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
        // The file shows no more than that this process led.
        let _ = self.0.remove_file();
        tell("STATUS=a candidate");
        self.0.tell(Change::IsCandidate(Some(self.1)));
    }
}

/// Sends a state to the service manager that has started this process, if any, by the protocol of `sd_notify(3)`. A manager
/// that does not read in time learns of a later state: the renewals do not wait for it.
fn tell(state: &str) {
    let Some(manager) = env::var_os("NOTIFY_SOCKET") else { return };
    let sent = address(&manager).and_then(|manager| {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        socket.connect_addr(&manager)?;
        socket.send(state.as_bytes())
    });
    if let Err(error) = sent {
        tracing::warn!(%error, "systemd cannot be told");
    }
}

/// Returns the address of a path, or of an abstract name behind an `@`.
fn address(name: &OsStr) -> io::Result<SocketAddr> {
    #[cfg(target_os = "linux")]
    if let Some(name) = name.as_bytes().strip_prefix(b"@") {
        return SocketAddr::from_abstract_name(name);
    }
    SocketAddr::from_pathname(name)
}
