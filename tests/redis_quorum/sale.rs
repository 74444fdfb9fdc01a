//! A flash sale by processes, on three servers: one is killed, one restarts empty, and one is stopped. The stock
//! is a file behind a fence that checks tokens.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::future::join_all;
use leasehold::file::FileFence;
use leasehold::{Fence, FencingToken, LockClient, LockRequest, Wait};
use lock_testkit::child::{self, Child};
use lock_testkit::eventually;
use tempfile::TempDir;
use tokio::time::sleep;

use crate::set::Set;
use crate::support::LIMIT;

const SELLERS: usize = 4;

/// Number of items delivered at a time.
const PART: u32 = 15;

const CLOSED: &str = "closed";

fn request() -> LockRequest {
    LockRequest::new("stock").ttl(Duration::from_secs(1)).wait(Wait::AtMost(LIMIT))
}

struct Shop {
    fence: FileFence,
    folder: PathBuf,
}

impl Shop {
    fn at(folder: &Path) -> Self {
        let fence = FileFence::open(folder.join("fence")).expect("a fence");
        Self { fence, folder: folder.to_owned() }
    }

    fn stock(&self) -> PathBuf {
        self.folder.join("stock")
    }

    fn left(&self) -> u32 {
        let text = fs::read_to_string(self.stock()).unwrap_or_default();
        text.parse().unwrap_or(0)
    }

    /// Shows the token to the fence, reads, and writes unless the fence has seen a greater one; returns true if
    /// it wrote.
    async fn change(&self, token: FencingToken, change: impl Fn(u32) -> Option<u32>) -> bool {
        if self.fence.advance(token).await.is_err() {
            return false;
        }
        let Some(left) = change(self.left()) else { return false };
        // Gives others time to get in between, if they can.
        sleep(Duration::from_millis(2)).await;
        self.fence.write(token, self.stock(), left.to_string().as_bytes()).await.is_ok()
    }
}

/// Role of a process that sells until the shop closes. It reports each token that it gets, and each sale.
pub(crate) async fn sell() {
    let variable = |name| env::var(name).expect("it is set");
    let locks = leasehold::connect(&variable("LOCK_URL")).await.expect("a connection");
    let shop = Shop::at(Path::new(&variable("FOLDER")));
    while !shop.folder.join(CLOSED).exists() {
        // An attempt without the answer of a majority is repeated.
        let Ok(guard) = locks.acquire(request()).await else { continue };
        child::say(&guard.token().to_string());
        if shop.change(guard.token(), |left| left.checked_sub(1)).await {
            child::say("sold");
        }
        let _ = guard.release().await;
    }
    child::say(CLOSED);
}

/// Reports of the sellers.
#[derive(Default)]
struct Said {
    tokens: Vec<u64>,
    sold: u32,
}

async fn listen(mut seller: Child) -> Said {
    let mut said = Said::default();
    loop {
        match &*seller.line().await {
            CLOSED => return said,
            "sold" => said.sold += 1,
            token => said.tokens.push(token.parse().expect("a token")),
        }
    }
}

/// The owner of the shop, who delivers items while servers fail.
struct Owner {
    locks: LockClient,
    shop: Shop,
    tokens: Vec<u64>,
    delivered: u32,
}

impl Owner {
    async fn deliver(&mut self) {
        loop {
            let guard = self.locks.acquire(request()).await.expect("its turn comes");
            self.tokens.push(guard.token().get());
            let is_delivered = self.shop.change(guard.token(), |left| Some(left + PART)).await;
            let _ = guard.release().await;
            if is_delivered {
                self.delivered += PART;
                return;
            }
        }
    }

    async fn until_sold_out(&self) {
        eventually("all is sold", LIMIT, async || self.shop.left() == 0).await;
    }

    /// Lets each server fail in another way, during sales, and items are sold without it.
    async fn trade(&mut self, set: &mut Set) {
        self.deliver().await;
        set.servers[0].kill();
        self.deliver().await;
        self.until_sold_out().await;
        set.servers[0].restart().await;
        set.until_it_votes(0).await;

        self.deliver().await;
        set.servers[1].restart().await;
        self.deliver().await;
        self.until_sold_out().await;
        set.until_it_votes(1).await;

        self.deliver().await;
        set.servers[2].stop();
        self.deliver().await;
        self.until_sold_out().await;
        set.servers[2].cont();
        fs::write(self.shop.folder.join(CLOSED), "").expect("written");
    }
}

/// S4: the sold items are the delivered ones, and no token is granted twice, whatever happens to one server at a
/// time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s4_a_sale_by_processes_is_exact_while_servers_fail() {
    let (mut set, folder) = (Set::of(3).await, TempDir::new().expect("a folder"));
    let (url, path) = (set.url(), folder.path().display().to_string());
    let seller = |_| child::spawn("seller", &[("LOCK_URL", &url), ("FOLDER", &path)]);
    let selling = join_all((0..SELLERS).map(seller).map(listen));
    let (locks, shop) = (set.client().await, Shop::at(folder.path()));
    let mut owner = Owner { locks, shop, tokens: Vec::new(), delivered: 0 };
    let (said, ()) = tokio::join!(selling, owner.trade(&mut set));
    let sold: u32 = said.iter().map(|said| said.sold).sum();
    assert_eq!((sold, owner.shop.left()), (owner.delivered, 0));
    let tokens = said.iter().flat_map(|said| &said.tokens).chain(&owner.tokens);
    let distinct: BTreeSet<&u64> = tokens.clone().collect();
    assert_eq!(distinct.len(), tokens.count(), "a token was given twice");
}
