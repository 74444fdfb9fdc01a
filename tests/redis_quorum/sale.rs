//! The flash sale on three servers, of which one is killed, restarted empty, and another is stopped.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use leasehold::{Fence, FenceError, FencingToken, LockClient, LockRequest, MemoryFence, Wait};
use tokio::sync::Mutex;

use crate::set::Set;
use crate::support::{LIMIT, fresh_name};

const STOCK: u32 = 60;
const SHOPS: usize = 4;

struct Shop {
    fence: MemoryFence,
    /// Checked and written in one step.
    stock: Mutex<u32>,
    sold: AtomicU32,
    is_closed: AtomicBool,
}

impl Shop {
    /// Advances the fence, reads, and writes. A sale that the fence refuses, or whose lock is lost, is none.
    async fn sell(&self, locks: &LockClient, name: &str) -> bool {
        let request = LockRequest::new(name).ttl(Duration::from_secs(1)).wait(Wait::AtMost(LIMIT));
        let Ok(guard) = locks.acquire(request).await else { return true };
        let token = guard.token();
        let Ok(left) = self.read(token).await else { return true };
        tokio::time::sleep(Duration::from_millis(5)).await;
        let is_sold = left > 0 && self.write(token, left - 1).await.is_ok();
        self.sold.fetch_add(u32::from(is_sold), Ordering::SeqCst);
        let _ = guard.release().await;
        left > 1 || (left == 1 && !is_sold)
    }

    async fn read(&self, token: FencingToken) -> Result<u32, FenceError> {
        let stock = self.stock.lock().await;
        self.fence.advance(token).await.map(|()| *stock)
    }

    async fn write(&self, token: FencingToken, left: u32) -> Result<(), FenceError> {
        let mut stock = self.stock.lock().await;
        self.fence.advance(token).await.map(|()| *stock = left)
    }

    fn is_open(&self) -> bool {
        !self.is_closed.load(Ordering::SeqCst)
    }
}

/// S4: what is sold is what was there, whatever becomes of one server at a time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s4_a_sale_is_exact_while_servers_fail() {
    let mut set = Set::of(3).await;
    let (name, shop) = (
        fresh_name(),
        Shop {
            fence: MemoryFence::new(),
            stock: Mutex::new(STOCK),
            sold: AtomicU32::new(0),
            is_closed: AtomicBool::new(false),
        },
    );
    let mut shops = Vec::new();
    for _ in 0..SHOPS {
        shops.push(set.client().await);
    }
    let selling = join_all(shops.iter().map(async |locks| {
        while shop.is_open() && shop.sell(locks, &name).await {}
        shop.is_closed.store(true, Ordering::SeqCst);
    }));
    let sold = async |count: u32| {
        while shop.is_open() && shop.sold.load(Ordering::SeqCst) < count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let failing = async {
        sold(STOCK / 6).await;
        set.servers[0].kill();
        sold(STOCK / 3).await;
        set.servers[0].restart().await;
        sold(STOCK / 2).await;
        // Until it votes again, the other two are needed.
        while set.servers[0].cli(&["EXISTS", "{}:run", "{}:out"]).integer() != 1 && shop.is_open() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        set.servers[1].stop();
        sold(STOCK * 5 / 6).await;
        set.servers[1].cont();
    };
    let all = async { tokio::join!(selling, failing) };
    tokio::time::timeout(LIMIT * 3, all).await.expect("the sale ends");
    let (left, sold) = (shop.stock.into_inner(), shop.sold.into_inner());
    assert_eq!((left, sold), (0, STOCK));
}
