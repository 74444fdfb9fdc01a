//! A lock of the operating system on a file; a blocked thread waits for it. It ends with its holder, and has no
//! token.

use std::fs::File;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use tokio::task::spawn_blocking;

use crate::client::{Client, Result};
use crate::contender::Contender;

pub(crate) const FLOCK: Contender = Contender {
    name: "flock",
    connect: |url| {
        Box::pin(async move {
            let folder = PathBuf::from(url.trim_start_matches("file:"));
            Ok(Box::new(Flock { folder, held: None }) as Box<dyn Client>)
        })
    },
};

struct Flock {
    folder: PathBuf,
    held: Option<File>,
}

#[async_trait]
impl Client for Flock {
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

fn try_lock(path: &Path) -> std::io::Result<Option<File>> {
    let file = open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(std::fs::TryLockError::WouldBlock) => Ok(None),
        Err(std::fs::TryLockError::Error(error)) => Err(error),
    }
}

fn lock(path: &Path) -> std::io::Result<File> {
    let file = open(path)?;
    file.lock()?;
    Ok(file)
}

fn open(path: &Path) -> std::io::Result<File> {
    File::options().create(true).append(true).open(path)
}
