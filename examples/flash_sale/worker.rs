//! A worker: a process that serves its share of the buyers.

use std::io::stdin;
use std::thread;
use std::time::Duration;

use futures_util::future::try_join_all;
use leasehold::{FencingToken, LockClient, LockError, LockGuard, LockRequest, Wait};
use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::news::{News, now};
use crate::orders::Orders;
use crate::sale::Failure;
use crate::shop::{NoSale, Shop};
use crate::stop;

/// Time to pack a parcel, without the lock, while others sell.
const PARCEL: Duration = Duration::from_millis(5);

/// Time of a payment, which lies between the read and the write.
const PAYMENT: Duration = Duration::from_millis(1);

/// Time of the slow payment: long enough to stop the worker during it. It is over when the worker continues.
const SLOW_PAYMENT: Duration = Duration::from_secs(1);

/// Longest wait of a buyer in the queue before the worker gives up.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// Runs a worker until all its buyers have been served.
pub(crate) fn run(url: &str, orders: Orders) -> Result<(), Failure> {
    stop::die_with_parent()?;
    let doors = doors();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build()?.block_on(async {
        let worker = Worker::new(url, orders).await?;
        say(News::Ready);
        doors.await?;
        let tills = 0..worker.tills();
        try_join_all(tills.map(|till| worker.till(till))).await?;
        worker.locks.shutdown().await;
        Ok(())
    })
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

fn say(news: News) {
    println!("{news}");
}

struct Worker {
    orders: Orders,
    locks: LockClient,
    shop: Shop,
}

impl Worker {
    async fn new(url: &str, orders: Orders) -> Result<Self, Failure> {
        let locks = leasehold::connect(url).await?;
        let shop = Shop::enter(&orders.shop, orders.act.is_fenced())?;
        Ok(Self { orders, locks, shop })
    }

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
            return answer(report(self.sell(buyer, None).await));
        }
        let guard = self.lock().await?;
        let (from, token) = (now(), guard.token());
        let sale = report(self.sell(buyer, Some(token)).await);
        let to = now();
        let kept = guard.release().await.is_ok();
        say(News::Held { token, from, to, kept });
        self.wrap_parcel(&sale).await;
        answer(sale)
    }

    async fn lock(&self) -> Result<LockGuard, LockError> {
        let request = LockRequest::new(&self.orders.lock)
            .ttl(self.orders.act.ttl())
            .wait(Wait::AtMost(MAX_WAIT))
            .label(format!("worker {}", self.orders.worker));
        self.locks.acquire(request).await
    }

    /// Sells one item, and returns the number of items that are left: shows the token, then reads, then writes.
    ///
    /// Between the read and the write it deliberately does not check `guard.is_held()`, and does not run inside
    /// `guard.run(…)`, which would drop the sale. Both are good practice, but no protection: the worker can be
    /// stopped after any check, one instruction before the write. Only the shop can see that a write comes too
    /// late.
    async fn sell(&self, buyer: u32, token: Option<FencingToken>) -> Result<u32, NoSale> {
        self.shop.show(token).await?;
        let read = self.shop.stock()?;
        if read == 0 {
            return Err(NoSale::SoldOut);
        }
        self.take_payment(read, token).await?;
        self.shop.set_stock(read - 1, token).await?;
        self.shop.record_sale(buyer, self.orders.worker)?;
        Ok(read - 1)
    }

    async fn take_payment(&self, read: u32, token: Option<FencingToken>) -> Result<(), NoSale> {
        let may_be_slow = self.orders.act.stops_a_worker() && read <= self.orders.sale.slow_at();
        match token {
            Some(token) if may_be_slow && self.shop.takes_slow_payment()? => {
                // Starts the time before it tells the parent, which may stop this process at once.
                let payment = sleep(SLOW_PAYMENT);
                say(News::AboutToWrite { token, read });
                payment.await;
            }
            _ => sleep(PAYMENT).await,
        }
        Ok(())
    }

    async fn wrap_parcel(&self, sale: &Result<u32, NoSale>) {
        if sale.is_ok() {
            sleep(PARCEL).await;
        }
    }
}

/// Reports the result of a sale to the parent.
fn report(sale: Result<u32, NoSale>) -> Result<u32, NoSale> {
    match sale {
        Ok(left) => say(News::Sold { at: now(), left }),
        Err(NoSale::SoldOut) => say(News::SoldOut),
        Err(NoSale::Stale { token, seen }) => say(News::Refused { token, seen }),
        Err(NoSale::Failed(_)) => {}
    }
    sale
}

/// Returns true if the buyer has an answer.
fn answer(sale: Result<u32, NoSale>) -> Result<bool, Failure> {
    match sale {
        Ok(_) | Err(NoSale::SoldOut) => Ok(true),
        Err(NoSale::Stale { .. }) => Ok(false),
        Err(NoSale::Failed(error)) => Err(error),
    }
}
