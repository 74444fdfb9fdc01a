//! A worker: a process that serves its share of the buyers.

use std::io::{self, stdin};
use std::thread;
use std::time::Duration;

use futures_util::future::try_join_all;
use leasehold::{FenceError, FencingToken, LockClient, LockError, LockGuard, LockRequest, Wait};
use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::news::{Hold, News, now};
use crate::orders::Orders;
use crate::sale::Failure;
use crate::shop::{Shop, ShopError};

/// Time to pack a parcel, without the lock, while others sell.
const PARCEL: Duration = Duration::from_millis(5);

/// Time of a payment, which lies between the read and the write.
const PAYMENT: Duration = Duration::from_millis(1);

/// Time of the slow payment: long enough to stop the worker during it. It is over when the worker continues.
const SLOW_PAYMENT: Duration = Duration::from_secs(1);

/// Longest wait of a buyer in the queue before the worker gives up.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// Runs a worker until all its buyers have been served.
pub(crate) async fn run(url: &str, orders: Orders) -> Result<(), Failure> {
    die_with_parent()?;
    let doors = doors();
    let locks = leasehold::connect(url).await?;
    let shop = Shop::enter(&orders.shop, orders.act.is_fenced())?;
    let worker = Worker { orders, locks, shop };
    say(News::Ready)?;
    doors.await?;
    let tills = 0..worker.tills();
    try_join_all(tills.map(|till| worker.till(till))).await?;
    worker.locks.shutdown().await;
    Ok(())
}

/// Makes the system end this process when its parent ends. A stopped worker cannot see the end of its standard
/// input, and would stay for ever. Elsewhere than on Linux only a running worker ends with its parent.
fn die_with_parent() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    Ok(())
}

/// Completes with the first line from the parent. Without its parent a worker ends.
fn doors() -> oneshot::Receiver<()> {
    let (open, doors) = oneshot::channel();
    thread::spawn(move || {
        let mut lines = stdin().lines();
        if lines.next().is_some() {
            let _ = open.send(());
        }
        lines.for_each(drop);
        std::process::exit(1)
    });
    doors
}

fn say(news: News) -> io::Result<()> {
    println!("{}", serde_json::to_string(&news)?);
    Ok(())
}

struct Worker {
    orders: Orders,
    locks: LockClient,
    shop: Shop,
}

impl Worker {
    /// Returns the number of buyers served at a time.
    fn tills(&self) -> u32 {
        self.orders.act.tills(self.orders.sale.tasks)
    }

    /// Serves the buyers of this till, one after the other.
    async fn till(&self, till: u32) -> Result<(), Failure> {
        let came_here = |buyer: &u32| buyer % self.tills() == till;
        for buyer in self.orders.sale.buyers_of(self.orders.worker).filter(came_here) {
            while !self.serve(buyer).await? {}
        }
        Ok(())
    }

    /// Serves a buyer; returns false if the shop refused, and the buyer must be served again.
    async fn serve(&self, buyer: u32) -> Result<bool, Failure> {
        if !self.orders.act.locks() {
            self.sell(buyer, None).await?;
            return Ok(true);
        }
        let guard = self.lock().await?;
        let (from, token) = (now(), guard.token());
        let outcome = self.sell(buyer, Some(token)).await?;
        let (to, kept) = (now(), guard.release().await.is_ok());
        let (worker, token) = (self.orders.worker, token.get());
        say(News::Held(Hold { worker, token, from, to, kept }))?;
        if let News::Sold { .. } = outcome {
            sleep(PARCEL).await;
        }
        Ok(!matches!(outcome, News::Refused { .. }))
    }

    async fn lock(&self) -> Result<LockGuard, LockError> {
        let request = LockRequest::new(&self.orders.lock)
            .ttl(self.orders.act.ttl())
            .wait(Wait::AtMost(MAX_WAIT))
            .label(format!("worker {}", self.orders.worker));
        self.locks.acquire(request).await
    }

    /// Sells one item if one is left, and reports the outcome.
    async fn sell(&self, buyer: u32, token: Option<FencingToken>) -> Result<News, Failure> {
        let outcome = match self.sell_one(buyer, token).await {
            Ok(Some(left)) => News::Sold { at: now(), left },
            Ok(None) => News::SoldOut,
            Err(ShopError::Fence(FenceError::Stale { token, seen })) => {
                News::Refused { token: token.get(), seen: seen.get() }
            }
            Err(error) => return Err(error.into()),
        };
        say(outcome)?;
        Ok(outcome)
    }

    /// Shows the token, then reads, then writes. Returns the number of items that are left; `None` if there was
    /// none.
    ///
    /// Between the read and the write it deliberately does not check `guard.is_held()`, and does not run inside
    /// `guard.run(…)`, which would drop the sale. Both are good practice, but no protection: the worker can be
    /// stopped after any check, one instruction before the write. Only the shop can see that a write comes too
    /// late.
    async fn sell_one(
        &self,
        buyer: u32,
        token: Option<FencingToken>,
    ) -> Result<Option<u32>, ShopError> {
        self.shop.show(token).await?;
        let read = self.shop.stock()?;
        let Some(left) = read.checked_sub(1) else { return Ok(None) };
        self.take_payment(read, token).await?;
        self.shop.set_stock(left, token).await?;
        self.shop.record_sale(buyer, self.orders.worker)?;
        Ok(Some(left))
    }

    async fn take_payment(&self, read: u32, token: Option<FencingToken>) -> io::Result<()> {
        let may_be_slow = self.orders.act.stops_a_worker() && read <= self.orders.sale.slow_at();
        match token.map(FencingToken::get) {
            Some(token) if may_be_slow && self.shop.takes_slow_payment()? => {
                // Starts the time before it tells the parent, which may stop this process at once.
                let payment = sleep(SLOW_PAYMENT);
                say(News::AboutToWrite { token, read })?;
                payment.await;
            }
            _ => sleep(PAYMENT).await,
        }
        Ok(())
    }
}
