//! The sockets on which processes receive grants.
//!
//! Each backend with a waiter has one datagram socket, in the folder `waiters` of its directory of locks. Its name is
//! random and never used again. So a socket that refuses belongs to a dead process, for ever.
//!
//! The folder is private, as the directory is: nobody else can send to a socket. A datagram also proves itself: it
//! names the owner id of a waiter, which is a capability. Any other datagram is ignored.

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use tokio::net::UnixDatagram;
use uuid::Uuid;

use crate::platform;

/// Longest wait for a process that does not read: its waiter then polls.
const SEND_TIMEOUT: Duration = Duration::from_millis(5);

/// Age below which a socket that refuses may still be in creation.
const SETTLED: Duration = Duration::from_secs(10);

/// Sockets whose random names begin with a byte below this remove the dead ones.
const SWEEPS: u8 = 8;

/// Longer than any of our messages: one with the most slots of a hold takes some 4 KiB.
const LONGEST_MESSAGE: usize = 8192;

/// The sockets in a directory of locks.
#[derive(Debug)]
pub(crate) struct Sockets {
    folder: PathBuf,
    /// Socket for messages to other processes. It has no name, and is made when it is first needed.
    sender: OnceLock<net::UnixDatagram>,
}

/// Outcome of a message to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivered {
    /// The process receives it; or the message is lost, and a poll finds its grant (C28).
    Sent,
    /// Nobody has that socket: its process is dead, or no longer waits.
    Nobody,
}

/// A socket of this process that nobody reads yet.
#[derive(Debug)]
pub(crate) struct BoundSocket {
    socket: net::UnixDatagram,
    file: SocketFile,
}

/// A socket of this process that is read.
#[derive(Debug)]
pub(crate) struct HearingSocket {
    socket: UnixDatagram,
    file: SocketFile,
    /// Buffer of the next message.
    message: Box<[u8]>,
}

/// The name of a socket in the file system. It is removed when this is dropped.
#[derive(Debug)]
struct SocketFile {
    name: Uuid,
    path: PathBuf,
}

impl Sockets {
    pub(crate) fn of(directory: &Path) -> Self {
        Self { folder: directory.join("waiters"), sender: OnceLock::new() }
    }

    /// Makes a socket for this process. About one call in 32 also removes the sockets of dead processes: it sends a
    /// message to each, so a crowd of which each did that would be busy with nothing else.
    pub(crate) fn bind(&self) -> io::Result<BoundSocket> {
        self.bound().map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", self.folder.display()))
        })
    }

    fn bound(&self) -> io::Result<BoundSocket> {
        self.create_folder()?;
        let name = Uuid::new_v4();
        if name.as_bytes()[0] < SWEEPS {
            self.remove_dead()?;
        }
        let socket = self.at_path_of(name, |path| net::UnixDatagram::bind(path))?;
        let file = SocketFile { name, path: self.path_of(name) };
        // Tokio accepts no blocking socket.
        socket.set_nonblocking(true)?;
        Ok(BoundSocket { socket, file })
    }

    /// Sends a message to the process that has the socket called `name`.
    pub(crate) fn tell(&self, name: Uuid, message: &str) -> Delivered {
        match self.send(name, message).map_err(|error| error.kind()) {
            Err(ErrorKind::NotFound) => Delivered::Nobody,
            Err(ErrorKind::ConnectionRefused) => {
                let _ = fs::remove_file(self.path_of(name));
                Delivered::Nobody
            }
            Ok(()) | Err(_) => Delivered::Sent,
        }
    }

    fn send(&self, name: Uuid, message: &str) -> io::Result<()> {
        let sender = self.sender()?;
        self.at_path_of(name, |path| sender.send_to(message.as_bytes(), path)).map(drop)
    }

    fn sender(&self) -> io::Result<&net::UnixDatagram> {
        if let Some(sender) = self.sender.get() {
            return Ok(sender);
        }
        let sender = net::UnixDatagram::unbound()?;
        sender.set_write_timeout(Some(SEND_TIMEOUT))?;
        Ok(self.sender.get_or_init(|| sender))
    }

    fn create_folder(&self) -> io::Result<()> {
        match DirBuilder::new().mode(0o700).create(&self.folder) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    }

    fn remove_dead(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name().to_str().and_then(|name| Uuid::try_parse(name).ok());
            let age = entry.metadata().and_then(|file| file.modified());
            let age = age.ok().and_then(|made| made.elapsed().ok()).unwrap_or_default();
            if let Some(name) = name.filter(|_| age >= SETTLED) {
                // The receiver ignores an empty message.
                self.tell(name, "");
            }
        }
        Ok(())
    }

    fn path_of(&self, name: Uuid) -> PathBuf {
        self.folder.join(name.as_simple().to_string())
    }

    /// Acts on the path of a socket, by way of the open folder: that path is never too long for a socket, and the
    /// folder is ours.
    fn at_path_of<T>(&self, name: Uuid, act: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
        let folder = platform::open_folder(&self.folder)?;
        act(&folder.path_of(&name.as_simple().to_string()))
    }
}

impl BoundSocket {
    /// Reads the socket on the current runtime.
    pub(crate) fn hear(self) -> io::Result<HearingSocket> {
        let Self { socket, file } = self;
        // Tokio panics in a runtime that was built without I/O.
        let socket = catch_unwind(|| UnixDatagram::from_std(socket));
        let socket = socket.unwrap_or_else(|_| Err(ErrorKind::Unsupported.into()))?;
        Ok(HearingSocket { socket, file, message: [0; LONGEST_MESSAGE].into() })
    }
}

impl HearingSocket {
    pub(crate) fn name(&self) -> Uuid {
        self.file.name
    }

    /// Returns the next message.
    ///
    /// # Cancel safety
    /// Dropping the future loses no message.
    pub(crate) async fn recv(&mut self) -> io::Result<String> {
        let length = self.socket.recv(&mut self.message).await?;
        Ok(String::from_utf8_lossy(&self.message[..length]).into_owned())
    }

    /// Returns true if others can find the socket: nobody has removed its file.
    pub(crate) fn is_found(&self) -> bool {
        self.file.path.symlink_metadata().is_ok()
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests;
