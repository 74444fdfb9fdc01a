//! Plays an act: a shop, a crew, a thousand buyers, and their reports.

use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use crate::act::Act;
use crate::crew::Crew;
use crate::news::{News, now};
use crate::orders::Orders;
use crate::played::{Heard, Played, Stop};
use crate::sale::{Failure, Sale};
use crate::shop::Shop;

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
    pub(crate) fn set(url: Option<String>, sale: Sale) -> Result<Self, Failure> {
        let dir = tempfile::Builder::new().prefix("flash_sale-").tempdir()?;
        let beside = || format!("file:{}", dir.path().join("locks").display());
        let url = url.unwrap_or_else(beside);
        let backend = look_at(&url)?;
        Ok(Self { url, backend, sale, dir })
    }

    pub(crate) fn play(&self, act: Act) -> Result<Played, Failure> {
        let sale = self.sale;
        let dir = self.dir.path().join(act.key());
        Shop::found(&dir, sale.items)?;
        let orders = |worker| self.orders(act, worker, &dir);
        let mut crew = Crew::hire(&self.url, sale.workers, orders)?;
        crew.open_doors()?;
        let (heard, stop) = listen(&crew)?;
        crew.go_home()?;
        let shop = Shop::enter(&dir, false)?;
        Ok(Played {
            act,
            sale,
            heard,
            stop,
            sold: u32::try_from(shop.sales()?)?,
            left: shop.stock().map_err(|error| format!("{error:?}"))?,
        })
    }

    fn orders(&self, act: Act, worker: u32, shop: &Path) -> Orders {
        // Several shows may run on one server.
        let lock = format!("flash-sale:{}:{}", std::process::id(), act.key());
        Orders { act, worker, lock, shop: shop.to_owned(), sale: self.sale }
    }
}

/// Connects once before the ten workers do, so that an error in the URL is printed once.
fn look_at(url: &str) -> Result<&'static str, Failure> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let locks = runtime.enable_all().build()?.block_on(leasehold::connect(url))?;
    match locks.capabilities().backend {
        "memory" => Err("locks in memory are of one process, and the shop has ten".into()),
        backend => Ok(backend),
    }
}

/// Reads the reports until all workers have ended, and stops one of them meanwhile.
fn listen(crew: &Crew) -> Result<(Heard, Option<Stop>), Failure> {
    let (mut heard, mut stop) = (Vec::new(), None);
    while let Some((worker, news)) = crew.next_news()? {
        interfere(crew, worker, news, &mut stop)?;
        heard.push((worker, news));
    }
    Ok((heard, stop))
}

/// Stops the worker that is about to write. Continues it when another worker has told a buyer that nothing is
/// left: by then its lease is over, and others have held the lock and sold the rest.
fn interfere(crew: &Crew, worker: u32, news: News, stop: &mut Option<Stop>) -> Result<(), Failure> {
    match (news, stop) {
        (News::AboutToWrite { token, read }, stop) => {
            crew.stop(worker)?;
            *stop = Some(Stop { worker, token, read, stopped: now(), went_on: Duration::ZERO });
        }
        (News::SoldOut, Some(stop)) if stop.went_on.is_zero() => {
            stop.went_on = now();
            crew.let_go_on(stop.worker)?;
        }
        _ => {}
    }
    Ok(())
}
