//! Plays an act: a shop, a crew, a thousand buyers, and their reports.

use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::act::Act;
use crate::crew::Crew;
use crate::news::{News, now};
use crate::orders::Orders;
use crate::played::{Played, Stop};
use crate::sale::{Failure, Sale};
use crate::shop::Shop;
use crate::telling::Progress;

/// The place of the acts. Dropping it removes its files.
#[derive(Debug)]
pub(crate) struct Stage {
    url: String,
    /// Name of the store of the locks.
    pub(crate) backend: &'static str,
    pub(crate) sale: Sale,
    dir: TempDir,
}

impl Stage {
    /// Prepares the place. Without a URL the locks are files beside the shop.
    pub(crate) async fn set(url: Option<String>, sale: Sale) -> Result<Self, Failure> {
        let dir = tempfile::Builder::new().prefix("flash_sale-").tempdir()?;
        let beside = || format!("file:{}", dir.path().join("locks").display());
        let url = url.unwrap_or_else(beside);
        let backend = look_at(&url).await?;
        Ok(Self { url, backend, sale, dir })
    }

    pub(crate) async fn play(&self, act: Act) -> Result<Played, Failure> {
        let sale = self.sale;
        let mut progress = Progress::of(act, sale);
        let dir = self.dir.path().join(format!("{act:?}"));
        Shop::found(&dir, sale.items)?;
        let orders = |worker| self.orders(act, worker, &dir);
        let mut crew = Crew::hire(&self.url, sale.workers, orders)?;
        crew.open_doors().await?;
        let (mut heard, mut stop) = (Vec::new(), None);
        while let Some((worker, news)) = crew.next_news().await? {
            interfere(&crew, worker, news, &mut stop)?;
            progress.hear(news);
            heard.push((worker, news));
        }
        crew.go_home()?;
        let shop = Shop::enter(&dir, false)?;
        Ok(Played { act, sale, heard, stop, sold: shop.sales()?, left: shop.stock()? })
    }

    fn orders(&self, act: Act, worker: u32, shop: &Path) -> Orders {
        // Several shows may run on one server.
        let lock = format!("flash-sale:{}:{act:?}", std::process::id());
        Orders { act, worker, lock, shop: shop.to_owned(), sale: self.sale }
    }
}

/// Connects once before the ten workers do, so that an error in the URL is printed once.
async fn look_at(url: &str) -> Result<&'static str, Failure> {
    match leasehold::connect(url).await?.capabilities().backend {
        "memory" => Err("locks in memory are of one process, and the shop has ten".into()),
        backend => Ok(backend),
    }
}

/// Stops the worker that is about to write. Continues it when another worker has told a buyer that nothing is
/// left: by then its lease is over, and others have held the lock and sold the rest.
fn interfere(crew: &Crew, worker: u32, news: News, stop: &mut Option<Stop>) -> Result<(), Failure> {
    match (news, stop) {
        (News::AboutToWrite { token, read }, stop) => {
            crew.signal(worker, Signal::STOP)?;
            *stop = Some(Stop { worker, token, read, stopped: now(), went_on: Duration::ZERO });
        }
        (News::SoldOut, Some(stop)) if stop.went_on.is_zero() => {
            stop.went_on = now();
            crew.signal(stop.worker, Signal::CONT)?;
        }
        _ => {}
    }
    Ok(())
}
