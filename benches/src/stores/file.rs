//! Locks in a directory, beside `flock`. The floor of a hand-off is a datagram to a waiting process.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tempfile::TempDir;
use tokio::net::UnixDatagram;
use tokio::task::spawn_blocking;

use super::{Row, Store, WakeUp};
use crate::child::Child;
use crate::client::{Client, Result};
use crate::contender::Contender;
use crate::ours::LEASEHOLD;

pub(crate) const ROW: Row = Row {
    name: "file",
    start: || {
        Box::pin(async {
            let folder = tempfile::Builder::new().prefix("leasehold-").tempdir()?;
            Ok(Box::new(Directory(folder)) as Box<dyn Store>)
        })
    },
    contenders: &[LEASEHOLD, Contender::of::<Flock>("flock")],
    floor: None,
    wake_up: "a unix datagram",
};

struct Directory(TempDir);

#[async_trait]
impl Store for Directory {
    fn url(&self) -> String {
        format!("file:{}", self.0.path().display())
    }

    async fn wake_up(&self) -> Result<Option<Box<dyn WakeUp>>> {
        Ok(Some(Box::new(Datagram::in_folder(self.0.path()).await?)))
    }
}

/// A round trip, of which half counts: each process has its own clock.
struct Datagram {
    socket: UnixDatagram,
    _echo: Child,
}

impl Datagram {
    async fn in_folder(folder: &Path) -> Result<Self> {
        let (ours, theirs) = (folder.join("floor.a"), folder.join("floor.b"));
        let _ = std::fs::remove_file(&ours);
        let socket = UnixDatagram::bind(&ours)?;
        let mut echo = Child::start(&["echo", &theirs.display().to_string()])?;
        echo.line().await?;
        socket.connect(&theirs)?;
        Ok(Self { socket, _echo: echo })
    }
}

#[async_trait]
impl WakeUp for Datagram {
    async fn once(&mut self) -> Result<Duration> {
        let mut reply = [0];
        let sent = Instant::now();
        self.socket.send(&[0]).await?;
        self.socket.recv(&mut reply).await?;
        Ok(sent.elapsed() / 2)
    }
}

/// Sends back its input, until its process ends.
pub(crate) fn echo(path: &Path) -> Result<()> {
    let _ = std::fs::remove_file(path);
    let socket = std::os::unix::net::UnixDatagram::bind(path)?;
    println!("ready");
    let mut datagram = [0];
    loop {
        let (_, from) = socket.recv_from(&mut datagram)?;
        socket.send_to(&datagram, from.as_pathname().ok_or("the sender has a path")?)?;
    }
}

/// A lock of the operating system on a file; a blocked thread waits for it. It ends with its holder, and has no
/// token.
struct Flock {
    folder: PathBuf,
    held: Option<File>,
}

#[async_trait]
impl Client for Flock {
    async fn connect(url: &str) -> Result<Self> {
        Ok(Self { folder: PathBuf::from(url.trim_start_matches("file:")), held: None })
    }

    async fn acquire(&mut self, name: &str) -> Result<()> {
        let path = self.folder.join(format!("{name}.flock"));
        self.held = Some(match try_lock(&path)? {
            Some(file) => file,
            // If nobody waits for the thread any more, its result closes the file that it locked.
            None => spawn_blocking(move || lock(&path)).await??,
        });
        Ok(())
    }

    async fn release(&mut self, _: &str) -> Result<()> {
        match self.held.take() {
            Some(file) => Ok(file.unlock()?),
            None => Ok(()),
        }
    }

    fn another(&self) -> Box<dyn Client> {
        Box::new(Self { folder: self.folder.clone(), held: None })
    }
}

fn try_lock(path: &Path) -> io::Result<Option<File>> {
    let file = open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn lock(path: &Path) -> io::Result<File> {
    let file = open(path)?;
    file.lock()?;
    Ok(file)
}

fn open(path: &Path) -> io::Result<File> {
    File::options().create(true).append(true).open(path)
}
