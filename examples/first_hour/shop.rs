//! The work under the lock, and the fence of its resource.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use leasehold::file::FileFence;
use leasehold::{ClientOptions, Fence, FenceError, FencingToken, LockClient, LockError, Wait};

/// The others wait this long if this process dies; a hold survives an outage of two thirds of it.
const TTL: Duration = Duration::from_secs(5);

/// Longest wait of a buyer before the answer is "busy". Shorter than the time-out of any client or proxy, so that
/// nobody works for a caller who has left.
const MAX_WAIT: Duration = Duration::from_millis(150);

/// Connects once for the whole process. Others see `label` as the holder's name.
pub(crate) async fn connect(url: &str, label: &str) -> Result<LockClient, LockError> {
    let options = ClientOptions::new().ttl(TTL).wait(Wait::AtMost(MAX_WAIT)).label(label);
    leasehold::connect_with(url, options).await
}

/// Reason why nothing was sold, or why that is uncertain.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoSale {
    #[error("no such item")]
    Unknown,
    #[error("sold out")]
    SoldOut,
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Fence(#[from] FenceError),
    #[error("cannot read the stock: {0}")]
    Stock(#[from] io::Error),
}

/// The step between the read and the write, which takes a while.
#[async_trait]
pub(crate) trait Payment: Send + Sync + 'static {
    /// Charges for one item. Passes on the token, so that the bank too can refuse a late request.
    async fn charge(&self, item: &str, token: FencingToken);
}

/// One instance of the service.
pub(crate) struct Shop {
    locks: LockClient,
    shelves: BTreeMap<String, Shelf>,
    payment: Box<dyn Payment>,
}

impl Shop {
    pub(crate) fn new(
        locks: LockClient,
        shelves: impl IntoIterator<Item = (String, Shelf)>,
        payment: impl Payment,
    ) -> Self {
        let (shelves, payment) = (shelves.into_iter().collect(), Box::new(payment));
        Self { locks, shelves, payment }
    }

    pub(crate) fn locks(&self) -> &LockClient {
        &self.locks
    }

    /// Sells one item, and returns the number of items that are left.
    ///
    /// If the client hangs up, axum drops this future at any await. It then writes nothing more, and the lock, or
    /// the place in its queue, is released.
    pub(crate) async fn sell(&self, item: &str) -> Result<u32, NoSale> {
        let shelf = self.shelves.get(item).ok_or(NoSale::Unknown)?;
        let name = format!("stock:{item}");
        // Drops the sale if the lock is lost.
        let sale =
            self.locks.with(name, async |held| self.sell_one(item, shelf, held.token()).await);
        let sale = sale.await?;
        if let Err(lost) = sale.hold {
            // The sale counts all the same: the fence let its write pass, or refused it.
            tracing::warn!(item, %lost, "the hold did not last to the end of a sale");
        }
        sale.value
    }

    /// Advances the fence, then reads, then writes.
    async fn sell_one(
        &self,
        item: &str,
        shelf: &Shelf,
        token: FencingToken,
    ) -> Result<u32, NoSale> {
        shelf.fence.advance(token).await?;
        let left = shelf.left().await?.checked_sub(1).ok_or(NoSale::SoldOut)?;
        self.payment.charge(item, token).await;
        shelf.fence.write(token, &shelf.file, left.to_string().as_bytes()).await?;
        Ok(left)
    }
}

/// The resource: a file with the number of items that are left, and its fence.
pub(crate) struct Shelf {
    file: PathBuf,
    fence: FileFence,
}

impl Shelf {
    /// Opens the shelf of `item`: the file of that name.
    pub(crate) fn open(home: &Path, item: &str) -> io::Result<Self> {
        let fence =
            FileFence::open(home.join(format!("{item}.fence"))).map_err(io::Error::other)?;
        Ok(Self { file: home.join(item), fence })
    }

    async fn left(&self) -> io::Result<u32> {
        tokio::fs::read_to_string(&self.file).await?.parse().map_err(io::Error::other)
    }
}
