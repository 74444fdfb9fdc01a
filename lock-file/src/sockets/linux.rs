//! The sockets by which processes hear of grants.
//!
//! Each backend that has a waiter has one datagram socket, in the folder `waiters` of the directory of its
//! locks. Its name is random and never used again. So a socket that refuses is the socket of a process that
//! is dead, and stays dead.
//!
//! - The folder is private, as the directory is: nobody else can send to a socket. And a datagram proves
//!   itself: it names the owner id of a waiter, which is a capability. Any other is passed over.
//! - A socket is addressed by way of `/proc/self/fd`, since the path of a socket must be shorter than 108
//!   bytes, and that of a directory need not be.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::UnixDatagram;
use uuid::Uuid;

/// A process that does not read for longer is not waited for: its waiter looks for itself, within a poll.
const SEND_TIMEOUT: Duration = Duration::from_millis(5);

/// A younger socket that refuses may be one that is just being made.
const SETTLED: Duration = Duration::from_secs(10);

/// More than any message of ours has.
const LONGEST_MESSAGE: usize = 256;

/// The sockets in a directory of locks.
#[derive(Clone, Debug)]
pub(crate) struct Sockets {
    folder: PathBuf,
}

/// Whether a process can be told.
#[derive(Debug)]
pub(crate) enum Reach {
    Alive(Line),
    /// Nobody has that socket: its process is dead, or waits for nothing more.
    Gone,
    /// The system refused to tell.
    Unknown,
}

/// The way to one process.
#[derive(Debug)]
pub(crate) struct Line(net::UnixDatagram);

/// A socket of this process, which nobody reads yet.
#[derive(Debug)]
pub(crate) struct BoundSocket {
    socket: net::UnixDatagram,
    file: SocketFile,
}

/// A socket of this process, which is read.
#[derive(Debug)]
pub(crate) struct HearingSocket {
    socket: UnixDatagram,
    file: SocketFile,
}

/// The name of a socket in the file system, for as long as this lives.
#[derive(Debug)]
struct SocketFile {
    name: Uuid,
    path: PathBuf,
}

impl Sockets {
    pub(crate) fn of(directory: &Path) -> Self {
        Self { folder: directory.join("waiters") }
    }

    /// Makes a socket for this process, and removes those of dead ones.
    pub(crate) fn bind(&self) -> io::Result<BoundSocket> {
        self.create_folder()?;
        self.remove_dead()?;
        let name = Uuid::new_v4();
        let folder = File::open(&self.folder)?;
        let socket = net::UnixDatagram::bind(short_path(&folder, name))?;
        let file = SocketFile { name, path: self.path_of(name) };
        // Tokio takes no other.
        socket.set_nonblocking(true)?;
        Ok(BoundSocket { socket, file })
    }

    fn create_folder(&self) -> io::Result<()> {
        match DirBuilder::new().mode(0o700).create(&self.folder) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    }

    /// Looks for the process that has the socket called `name`.
    pub(crate) fn reach(&self, name: Uuid) -> Reach {
        match self.connect(name) {
            Ok(socket) => Reach::Alive(Line(socket)),
            Err(error) if error.kind() == ErrorKind::NotFound => Reach::Gone,
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                let _ = fs::remove_file(self.path_of(name));
                Reach::Gone
            }
            Err(_) => Reach::Unknown,
        }
    }

    fn connect(&self, name: Uuid) -> io::Result<net::UnixDatagram> {
        let folder = File::open(&self.folder)?;
        let socket = net::UnixDatagram::unbound()?;
        socket.connect(short_path(&folder, name))?;
        Ok(socket)
    }

    fn remove_dead(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name().to_str().and_then(|name| Uuid::try_parse(name).ok());
            let age = entry.metadata().and_then(|file| file.modified());
            let age = age.ok().and_then(|made| made.elapsed().ok()).unwrap_or_default();
            if let Some(name) = name.filter(|_| age >= SETTLED) {
                self.reach(name);
            }
        }
        Ok(())
    }

    fn path_of(&self, name: Uuid) -> PathBuf {
        self.folder.join(name.as_simple().to_string())
    }
}

fn short_path(folder: &File, name: Uuid) -> PathBuf {
    format!("/proc/self/fd/{}/{}", folder.as_raw_fd(), name.as_simple()).into()
}

impl Line {
    /// Tells the process. What is lost is found by a poll (C28).
    pub(crate) fn send(&self, message: &str) {
        let _ = self.0.set_write_timeout(Some(SEND_TIMEOUT));
        let _ = self.0.send(message.as_bytes());
    }
}

impl BoundSocket {
    /// Reads it on the runtime that this is called in.
    pub(crate) fn hear(self) -> io::Result<HearingSocket> {
        let Self { socket, file } = self;
        // Tokio panics in a runtime that was built without I/O.
        let socket = catch_unwind(|| UnixDatagram::from_std(socket));
        let socket = socket.unwrap_or_else(|_| Err(ErrorKind::Unsupported.into()))?;
        Ok(HearingSocket { socket, file })
    }
}

impl HearingSocket {
    pub(crate) fn name(&self) -> Uuid {
        self.file.name
    }

    /// The next message.
    ///
    /// # Cancel safety
    /// Dropping the future loses no message.
    pub(crate) async fn recv(&self) -> io::Result<String> {
        let mut message = [0; LONGEST_MESSAGE];
        let length = self.socket.recv(&mut message).await?;
        Ok(String::from_utf8_lossy(&message[..length]).into_owned())
    }

    /// Whether others find it: nobody has removed its file.
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
