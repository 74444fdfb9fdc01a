//! The resource that the locks protect: a number behind a fence.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use lock_core::{FenceError, FencingToken};

/// A number behind a fence (C24). Each holder of a lock increments it: it advances the fence, reads, and writes the
/// number plus one.
///
/// If the store's backend has a fence, implement the register with it, so that the checker judges the fence too.
#[async_trait]
pub trait Register: Send + Sync {
    /// Advances the fence.
    ///
    /// # Errors
    /// As [`Fence::advance`](lock_core::Fence::advance).
    async fn advance(&self, token: FencingToken) -> Result<(), FenceError>;

    /// Returns the number; 0 before the first write.
    ///
    /// # Errors
    /// [`FenceError::Backend`] if the resource could not be asked; [`FenceError::Stale`] if a read is refused like a
    /// write.
    async fn read(&self, token: FencingToken) -> Result<u64, FenceError>;

    /// Writes the number, unless the fence refuses the token.
    ///
    /// # Errors
    /// As [`Fence::advance`](lock_core::Fence::advance).
    async fn write(&self, token: FencingToken, value: u64) -> Result<(), FenceError>;
}

/// A register in a file that the workers share, for stores without a fence.
#[derive(Clone, Debug)]
pub struct FileRegister {
    path: PathBuf,
    is_fenced: bool,
}

impl FileRegister {
    /// The register called `name` in `folder`.
    pub fn open(folder: &Path, name: &str) -> Self {
        Self { path: folder.join(format!("{name}.register")), is_fenced: true }
    }

    /// Returns a register that accepts every write: the control run that shows the need for a fence.
    pub fn unfenced(folder: &Path, name: &str) -> Self {
        Self { is_fenced: false, ..Self::open(folder, name) }
    }

    /// Reads and writes in one step. The file lock protects the greatest token seen, and the number.
    async fn step(
        &self,
        token: FencingToken,
        value: Option<u64>,
        advances: bool,
    ) -> Result<u64, FenceError> {
        let register = self.clone();
        let step = move || register.step_now(token.get(), value, advances);
        let (seen, value) = tokio::task::spawn_blocking(step).await.expect("no panic");
        match FencingToken::new(seen) {
            Ok(seen) if advances && self.is_fenced && seen > token => {
                Err(FenceError::stale(token, seen))
            }
            _ => Ok(value),
        }
    }

    fn step_now(&self, token: u64, value: Option<u64>, advances: bool) -> (u64, u64) {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(&self.path).expect("the register can be opened");
        file.lock().expect("a file can be locked");
        let (seen, old) = contents(&mut file);
        if !advances || (self.is_fenced && token < seen) {
            return (seen, old);
        }
        let (seen, value) = (seen.max(token), value.unwrap_or(old));
        // One write of fixed length: a kill leaves the old or the new value.
        file.seek(SeekFrom::Start(0)).expect("a file has a start");
        file.write_all(format!("{seen:020} {value:020}").as_bytes()).expect("it can be written");
        (seen, value)
    }
}

fn contents(file: &mut File) -> (u64, u64) {
    let mut text = String::new();
    file.read_to_string(&mut text).expect("it can be read");
    let mut numbers = text.split(' ').map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

#[async_trait]
impl Register for FileRegister {
    async fn advance(&self, token: FencingToken) -> Result<(), FenceError> {
        self.step(token, None, true).await.map(drop)
    }

    async fn read(&self, token: FencingToken) -> Result<u64, FenceError> {
        self.step(token, None, false).await
    }

    async fn write(&self, token: FencingToken, value: u64) -> Result<(), FenceError> {
        self.step(token, Some(value), true).await.map(drop)
    }
}
