//! The side of the resource, for resources that are files.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use lock_core::{BackendError, Fence, FenceError, FencingToken, LockError, Outcome};

use crate::blocking::blocking;
use crate::creation::Creation;
use crate::fault;
use crate::locked_file::{LockTimeout, LockedFile};
use crate::path::{FileSystem, absolute, sync_folder_of, unusable};
use crate::platform;
use crate::replacement::{Privacy, Replacement};
use crate::state_file::{StateFile, StateOf};

/// A fence for resources that are files of one machine, shared by its processes.
///
/// The greatest token seen is kept in its own file, beside the resource. The tokens may come from any backend, if all
/// are of one lock. Clones share the fence, and so do all fences with the same path.
///
/// # Advance, then read, then write
/// [`write`](Self::write) checks the token and replaces the file in one step, so no other holder comes between. That
/// is not enough for a holder that reads first: a stale holder may write after the next holder's read and before its
/// first write, when the fence has not seen the new token yet. This order loses no update:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let home = tempfile::tempdir()?;
/// # let home = home.path();
/// use lock_core::{Fence, FenceError, LockClient};
/// use lock_file::{FileFence, FileBackend};
///
/// let locks = LockClient::new(FileBackend::open(home.join("locks"))?);
/// let fence = FileFence::open(home.join("stock.fence"))?;
/// let stock = home.join("stock");
/// # std::fs::write(&stock, "3")?;
///
/// let guard = locks.acquire("stock").await?;
/// let token = guard.token();
/// fence.advance(token).await?;
/// let left: u32 = std::fs::read_to_string(&stock)?.parse()?;
/// fence.write(token, &stock, (left - 1).to_string().as_bytes()).await?;
/// guard.release().await?;
///
/// // Once the next holder has advanced, the last one's writes are refused:
/// let next = locks.acquire("stock").await?;
/// fence.advance(next.token()).await?;
/// let refused = fence.write(token, &stock, b"0").await;
/// assert!(matches!(refused, Err(FenceError::Stale { .. })));
/// assert_eq!(std::fs::read_to_string(&stock)?, "2");
/// # Ok(()) }
/// ```
///
/// # Guarantees
/// - Every process refuses a token below the greatest seen, also after crashes: a process that dies at any
///   instruction leaves the old token or the new one. Each token is synced to the disk before it is accepted. An open
///   fence does so once per new token. A lock's record is not synced, since a reboot ends its holds anyway.
/// - At every moment, and after every crash, the target is the complete old file or the complete new one.
/// - A writer that is stopped inside its critical section makes the others fail after five seconds with a transient
///   error; no writer skips it.
///
/// Keep the fence's file for as long as the resource lives: a fence without its file has seen nothing.
#[derive(Clone, Debug)]
pub struct FileFence {
    path: Arc<Path>,
    synced: Arc<Synced>,
}

/// The last token that this fence has synced to the disk; 0 before the first.
type Synced = AtomicU64;

impl FileFence {
    /// Opens the fence in the file at `path`. Creates the file, for this user alone, if it is missing. Its directory
    /// must exist.
    ///
    /// It checks the file system before it returns.
    ///
    /// # Errors
    /// - [`LockError::Backend`], which names the path, if the file cannot be created, read or written, or if it is a
    ///   symbolic link. Also if another user has made it, or a directory above it, in a directory that everybody may
    ///   write, such as `/tmp`: that user could lower the token. Nothing was changed.
    /// - [`LockError::Config`] if it is on a file system that is not known to be local
    ///   ([`FileOptions`](crate::FileOptions)).
    pub fn open(path: impl AsRef<Path>) -> Result<Self, LockError> {
        Self::on(path.as_ref(), FileSystem::default())
    }

    pub(crate) fn on(path: &Path, file_system: FileSystem) -> Result<Self, LockError> {
        let path = &absolute(path)?;
        make(path).map_err(|error| unusable("open", path, error))?;
        file_system.refuse_foreign(path)?;
        Ok(Self { path: path.as_path().into(), synced: Arc::default() })
    }

    /// Advances the fence to `token` and replaces the file `target` by `contents`, in one step: no greater token can
    /// be seen between the check and the write.
    ///
    /// The target is replaced, not changed in place. The new file has its permissions but not its owner; a symbolic
    /// link itself is replaced. The new contents are first written to a hidden file in the same directory.
    ///
    /// # Errors
    /// - [`FenceError::Stale`] if a greater token was seen: the caller is not the holder any more,
    ///   and the target is untouched.
    /// - [`FenceError::Backend`] if the fence or the target could not be read or written; its
    ///   [outcome](BackendError::outcome) tells if the target may have been replaced.
    ///
    /// # Cancel safety
    /// A write that is dropped before it begins never happens. A write in progress ends before any later operation of
    /// the fence.
    pub async fn write(
        &self,
        token: FencingToken,
        target: impl AsRef<Path>,
        contents: &[u8],
    ) -> Result<(), FenceError> {
        let (path, synced) = (self.path.clone(), self.synced.clone());
        let (target, contents) = (target.as_ref().to_owned(), contents.to_vec());
        blocking(move |caller| {
            let mut fence = LockedFence::open(&path)?;
            caller.check()?;
            fence.check(token)?;
            let writer = fence.file.identity()?;
            let replacement = Replacement::write(&writer, &target, &contents, Privacy::Usual)?;
            // C25: the fence advances before the write.
            fence.remember(token, &synced, LockedFile::sync)?;
            let placed = replacement.put_in_place()?;
            // The next holder need not wait for the disk.
            drop(fence);
            Ok(placed.sync()?)
        })
        .await
    }
}

#[async_trait]
impl Fence for FileFence {
    async fn advance(&self, token: FencingToken) -> Result<(), FenceError> {
        let (path, synced) = (self.path.clone(), self.synced.clone());
        blocking(move |_| {
            let mut fence = LockedFence::open(&path)?;
            fence.check(token)?;
            Ok(fence.remember(token, &synced, LockedFile::sync)?)
        })
        .await
    }

    async fn seen(&self) -> Result<Option<FencingToken>, FenceError> {
        let path = self.path.clone();
        blocking(move |_| Ok(LockedFence::open(&path)?.greatest)).await
    }
}

/// Creates the file of a fence if it is missing, and checks that it can be read and written.
fn make(path: &Path) -> io::Result<()> {
    platform::refuse_strangers(path)?;
    match platform::open_anywhere(path, Creation::Never) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            platform::open_anywhere(path, Creation::Create)?;
        }
        opened => drop(opened?),
    }
    // Also for a file that was there: its creator may have died before this step.
    sync_folder_of(path)
}

/// A fence that nobody else can change while this lives.
struct LockedFence {
    file: LockedFile,
    greatest: Option<FencingToken>,
}

impl LockedFence {
    fn open(path: &Path) -> Result<Self, BackendError> {
        let state_file = StateFile { path: path.to_owned(), of: StateOf::Fence };
        // The file was created when the fence was opened. A new file would have no token.
        let file = LockedFile::find(&state_file, LockTimeout::with_disk())?
            .ok_or_else(|| missing(&state_file))?;
        let greatest = file.value().map(token_in).transpose();
        let greatest = greatest.map_err(|why| fault::unusable(&state_file, why))?;
        Ok(Self { file, greatest })
    }

    fn check(&self, token: FencingToken) -> Result<(), FenceError> {
        match self.greatest {
            // C24: an equal or greater token passes.
            Some(seen) if seen > token => Err(FenceError::stale(token, seen)),
            _ => Ok(()),
        }
    }

    /// Writes and syncs the token, unless this fence has done so before.
    ///
    /// C24: the writer of a token that is in the file may have died before its sync, or the sync may have failed. A
    /// second sync may then succeed without the data, so the token is written again.
    fn remember(
        &mut self,
        token: FencingToken,
        synced: &Synced,
        sync: impl FnOnce(&LockedFile) -> Result<(), BackendError>,
    ) -> Result<(), BackendError> {
        if self.greatest == Some(token) && synced.load(Ordering::Relaxed) == token.get() {
            return Ok(());
        }
        self.file.replace(token.to_string().into_bytes())?;
        self.greatest = Some(token);
        sync(&self.file)?;
        synced.store(token.get(), Ordering::Relaxed);
        Ok(())
    }
}

fn missing(state_file: &StateFile) -> BackendError {
    let error = io::Error::new(ErrorKind::NotFound, "it was removed");
    fault::refused("open", state_file, Outcome::NotApplied, error)
}

fn token_in(payload: &[u8]) -> Result<FencingToken, &'static str> {
    let text = std::str::from_utf8(payload).ok();
    let token = text.and_then(|text| text.parse().ok());
    token.ok_or("it is not the record of a fence")
}

#[cfg(test)]
mod tests;
