//! The shop, which the lock guards: a number in a file, and a log of sales.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use leasehold::file::FileFence;
use leasehold::{Fence as _, FenceError, FencingToken};
use tempfile::NamedTempFile;

/// Reason why the shop could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) enum ShopError {
    Fence(#[from] FenceError),
    Io(#[from] io::Error),
}

/// A shop in a directory.
#[derive(Debug)]
pub(crate) struct Shop {
    dir: PathBuf,
    /// Refuses stale tokens, if the shop is fenced.
    fence: Option<FileFence>,
}

impl Shop {
    /// Fills the shelves of a new shop.
    pub(crate) fn found(dir: &Path, items: u32) -> io::Result<()> {
        fs::create_dir_all(dir)?;
        fs::write(dir.join("stock.txt"), items.to_string())?;
        fs::write(dir.join("sales.log"), "")
    }

    pub(crate) fn enter(dir: &Path, is_fenced: bool) -> Result<Self, ShopError> {
        let (dir, fence) = (dir.to_owned(), is_fenced.then(|| dir.join("fence")));
        let fence = fence.map(FileFence::open).transpose().map_err(io::Error::other)?;
        Ok(Self { dir, fence })
    }

    /// Shows the token before the first read: from then on a fenced shop refuses writes of earlier holders, so
    /// that a read value stays true until the write.
    pub(crate) async fn show(&self, token: Option<FencingToken>) -> Result<(), FenceError> {
        if let (Some(fence), Some(token)) = (&self.fence, token) {
            fence.advance(token).await?;
        }
        Ok(())
    }

    /// Reads the number of items that are left.
    pub(crate) fn stock(&self) -> io::Result<u32> {
        fs::read_to_string(self.stock_path())?.trim().parse().map_err(io::Error::other)
    }

    /// Writes the number of items that are left; a fenced shop checks the token in the same step.
    pub(crate) async fn set_stock(
        &self,
        stock: u32,
        token: Option<FencingToken>,
    ) -> Result<(), ShopError> {
        let (target, text) = (self.stock_path(), stock.to_string());
        match (&self.fence, token) {
            (Some(fence), Some(token)) => fence.write(token, &target, text.as_bytes()).await?,
            _ => self.replace_stock(&text)?,
        }
        Ok(())
    }

    /// Replaces the whole file, so that nobody reads half a number: torn writes are not the cause of the damage
    /// in the first act.
    fn replace_stock(&self, text: &str) -> io::Result<()> {
        let mut file = NamedTempFile::new_in(&self.dir)?;
        file.write_all(text.as_bytes())?;
        file.persist(self.stock_path())?;
        Ok(())
    }

    pub(crate) fn record_sale(&self, buyer: u32, worker: u32) -> io::Result<()> {
        let mut log = OpenOptions::new().append(true).open(self.log_path())?;
        log.write_all(format!("buyer {buyer} by worker {worker}\n").as_bytes())
    }

    /// Returns the number of sales in the log.
    pub(crate) fn sales(&self) -> io::Result<u32> {
        let sales = fs::read_to_string(self.log_path())?.lines().count();
        u32::try_from(sales).map_err(io::Error::other)
    }

    /// Returns true if this payment is the slow one. A shop has one: the first that asks, in any process.
    pub(crate) fn takes_slow_payment(&self) -> io::Result<bool> {
        let mark = self.dir.join("slow-payment");
        match OpenOptions::new().write(true).create_new(true).open(mark) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn stock_path(&self) -> PathBuf {
        self.dir.join("stock.txt")
    }

    fn log_path(&self) -> PathBuf {
        self.dir.join("sales.log")
    }
}
