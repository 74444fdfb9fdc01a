//! A flash sale by processes. One of them is between its read and its write while a failover forgets its grant.
//!
//! Each process sells in two shops at a time: one checks tokens, and one trusts the lock. The second is the
//! positive control: if its stock were right, the sale would show nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use leasehold::file::FileFence;
use leasehold::{Fence, FencingToken, LockRequest, Wait};
use lock_testkit::{child, eventually};
use tempfile::TempDir;

use crate::support::{LIMIT, client};

/// Number of items of each shop.
pub(crate) const STOCK: u32 = 120;

const SELLERS: usize = 4;

/// Longest delay by a hold that a replica still knows after its release.
const TTL: Duration = Duration::from_secs(2);

/// Roles of the processes.
pub(crate) const SELLER: &str = "seller";
pub(crate) const SLOW_SELLER: &str = "slow seller";

fn variable(name: &str) -> String {
    std::env::var(name).expect(name)
}

fn request() -> LockRequest {
    LockRequest::new(variable("NAME")).ttl(TTL).wait(Wait::AtMost(LIMIT))
}

/// Returns the number of items left; `None` if it was never written.
fn left(file: &Path) -> Option<u32> {
    fs::read_to_string(file).ok()?.parse().ok()
}

/// Both shops for one process, and its sales in each.
struct Shops {
    fence: FileFence,
    fenced: PathBuf,
    trusting: PathBuf,
    sold: [u32; 2],
}

impl Shops {
    fn enter() -> Self {
        let folder = PathBuf::from(variable("FOLDER"));
        let fence = FileFence::open(folder.join("fence")).expect("a fence");
        let [fenced, trusting] = ["fenced", "trusting"].map(|shop| folder.join(shop));
        Self { fence, fenced, trusting, sold: [0; 2] }
    }

    /// Advances the fence, then reads the stock of each; `None` if the token is stale.
    async fn read(&self, token: FencingToken) -> Option<[u32; 2]> {
        self.fence.advance(token).await.ok()?;
        Some([left(&self.fenced)?, left(&self.trusting)?])
    }

    /// Sells one item in each; returns true if the shop that checks tokens accepted it.
    async fn write(&mut self, token: FencingToken, [fenced, trusting]: [u32; 2]) -> bool {
        if trusting > 0 {
            fs::write(&self.trusting, (trusting - 1).to_string()).expect("written");
            self.sold[1] += 1;
        }
        let rest = fenced.saturating_sub(1).to_string();
        let written = self.fence.write(token, &self.fenced, rest.as_bytes()).await.is_ok();
        self.sold[0] += u32::from(written && fenced > 0);
        written
    }

    /// Reports the sales to the parent.
    fn close(self) {
        child::say(&format!("{} {}", self.sold[0], self.sold[1]));
    }
}

/// Sells until nothing is left.
pub(crate) async fn sell() {
    let (locks, mut shops) = (client(&variable("LOCK_URL")).await, Shops::enter());
    loop {
        // The server of the lock may be down.
        let Ok(guard) = locks.acquire(request()).await else { continue };
        let seen = shops.read(guard.token()).await;
        if let Some(seen) = seen.filter(|[fenced, _]| *fenced > 0) {
            tokio::time::sleep(Duration::from_millis(5)).await;
            shops.write(guard.token(), seen).await;
        }
        let _ = guard.release().await;
        if let Some([0, _]) = seen {
            return shops.close();
        }
    }
}

/// Sells once, and reads and writes on command.
pub(crate) async fn sell_slowly() {
    let (locks, mut shops) = (client(&variable("LOCK_URL")).await, Shops::enter());
    child::say("ready");
    child::hear().await;
    let guard = locks.acquire(request()).await.expect("its turn comes");
    let seen = shops.read(guard.token()).await.expect("the newest token");
    child::say("read");
    child::hear().await;
    let written = shops.write(guard.token(), seen).await;
    child::say(if written { "written" } else { "refused" });
    shops.close();
}

/// A sale in progress.
pub(crate) struct Sale {
    folder: TempDir,
    sellers: Vec<child::Child>,
    slow: child::Child,
}

impl Sale {
    /// Opens the shops, with locks of this name.
    pub(crate) async fn open(url: &str, name: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().display().to_string();
        for shop in ["fenced", "trusting"] {
            fs::write(folder.path().join(shop), STOCK.to_string()).expect("written");
        }
        let variables = [("LOCK_URL", url), ("NAME", name), ("FOLDER", &*path)];
        let mut slow = child::spawn(SLOW_SELLER, &variables);
        assert_eq!(slow.line().await, "ready");
        let sellers = (0..SELLERS).map(|_| child::spawn(SELLER, &variables)).collect();
        Self { folder, sellers, slow }
    }

    /// Waits until `count` items were sold.
    pub(crate) async fn until_sold(&self, count: u32) {
        let fenced = self.folder.path().join("fenced");
        eventually("items are sold", LIMIT, async || {
            left(&fenced).is_some_and(|left| STOCK - left >= count)
        })
        .await;
    }

    /// Lets the slow seller acquire the lock and read; returns the number of sales so far.
    pub(crate) async fn let_one_read(&mut self) -> u32 {
        self.slow.tell("read").await;
        assert_eq!(self.slow.line().await, "read");
        STOCK - left(&self.folder.path().join("fenced")).expect("a number")
    }

    /// Lets the slow seller write; returns its report.
    pub(crate) async fn let_it_write(&mut self) -> String {
        self.slow.tell("write").await;
        self.slow.line().await
    }

    /// Waits for the end. Returns the sold items of each shop, and the items that it reports as left.
    pub(crate) async fn closed(mut self) -> [(u32, u32); 2] {
        let mut sold = [0; 2];
        for seller in self.sellers.iter_mut().chain([&mut self.slow]) {
            let line = seller.line().await;
            for (sum, number) in sold.iter_mut().zip(line.split(' ')) {
                *sum += number.parse::<u32>().expect("a number");
            }
        }
        let left = ["fenced", "trusting"].map(|shop| left(&self.folder.path().join(shop)));
        [(sold[0], left[0].expect("a number")), (sold[1], left[1].expect("a number"))]
    }
}
