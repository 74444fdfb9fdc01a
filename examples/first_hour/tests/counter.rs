//! A shop on its own Redis, behind a network that can be disturbed. Its counter can be closed, so that buyers
//! wait between the read and the write.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use leasehold::{ClientOptions, FencingToken, Wait};
use lock_testkit::{Proxy, RedisServer, eventually};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::answer::{OrderAnswer, order};
use crate::order::Order;
use crate::reports;
use crate::shop::{Payment, Shelf, Shop};

/// A time limit for waits that have none of their own.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// Initial stock of each shelf.
pub(crate) const STOCK: u32 = 1_000_000;

/// Number of items, each with its own lock: so many orders meet each disturbance.
const ITEMS: usize = 20;

/// The shop, its server and its network.
pub(crate) struct Scene {
    pub(crate) server: RedisServer,
    pub(crate) proxy: Proxy,
    pub(crate) counter: Counter,
    home: TempDir,
    ttl: Duration,
    /// True if a lock passes from one order to the next of an instance without a request.
    pub(crate) local_hand_off: bool,
    pub(crate) request_timeout: Duration,
}

impl Scene {
    /// Starts a server that forgets nothing when it is killed.
    pub(crate) async fn set(ttl: Duration) -> Self {
        Self::on(RedisServer::start_with(&RedisServer::DURABLE).await, ttl).await
    }

    pub(crate) async fn on(server: RedisServer, ttl: Duration) -> Self {
        reports::listen();
        let (proxy, home) = (Proxy::start(server.addr()).await, new_home());
        let (counter, request_timeout) = (Counter::default(), Duration::from_secs(2));
        Self { server, proxy, counter, home, ttl, local_hand_off: true, request_timeout }
    }

    /// Opens an instance of the service, over the network.
    pub(crate) async fn shop(&self) -> Arc<Shop> {
        self.shop_at(&self.proxy.url()).await
    }

    /// Opens an instance of the service that reaches the server directly.
    pub(crate) async fn shop_beside(&self) -> Arc<Shop> {
        self.shop_at(&self.server.url()).await
    }

    async fn shop_at(&self, url: &str) -> Arc<Shop> {
        let options = ClientOptions::new()
            .ttl(self.ttl)
            .wait(Wait::AtMost(Duration::from_secs(4)))
            .request_timeout(self.request_timeout)
            .local_hand_off(self.local_hand_off);
        let locks = leasehold::connect_with(url, options).await.expect("a connection");
        let shelf = |item: &str| Shelf::open(self.home.path(), item).expect("a shelf");
        let shelves = items().map(|item| (item.clone(), shelf(&item)));
        Arc::new(Shop::new(locks, shelves, self.counter.clone()))
    }

    /// Returns the number of items that were taken off a shelf.
    pub(crate) fn taken(&self, item: &str) -> usize {
        let left = fs::read_to_string(self.home.path().join(item)).expect("a shelf");
        (STOCK - left.parse::<u32>().expect("a number")) as usize
    }

    /// Compares the sold items with the taken ones. Sales that the buyer was told are uncertain may differ.
    pub(crate) fn assert_exact(&self, answers: &[(String, OrderAnswer)]) {
        for item in items() {
            let told = || answers.iter().filter(|(of, _)| *of == item).map(|(_, answer)| answer);
            let sold = told().filter(|answer| answer.is_sold()).count();
            let uncertain = told().filter(|answer| answer.is_uncertain()).count();
            let taken = self.taken(&item);
            assert!(
                (sold..=sold + uncertain).contains(&taken),
                "{item}: {taken} taken, {sold} sold, {uncertain} uncertain: {answers:#?}"
            );
        }
    }

    /// Asserts that each item can soon be sold again.
    pub(crate) async fn assert_sells(&self, shop: &Arc<Shop>) {
        self.counter.open();
        join_all(items().map(|item| async move {
            eventually("it is sold", LIMIT, async || {
                order(shop.clone(), item.clone()).await.is_sold()
            })
            .await;
        }))
        .await;
    }
}

fn new_home() -> TempDir {
    let home = tempfile::tempdir().expect("a folder");
    for item in items() {
        fs::write(home.path().join(item), STOCK.to_string()).expect("a shelf");
    }
    home
}

pub(crate) fn items() -> impl Iterator<Item = String> {
    (0..ITEMS).map(|i| format!("lamp-{i}"))
}

/// Orders in progress, one at a time for each item.
pub(crate) struct Orders(JoinSet<(String, OrderAnswer)>);

impl Orders {
    /// Orders each item once.
    pub(crate) fn of_each_item(shop: &Arc<Shop>) -> Self {
        Self(
            items()
                .map(|item| {
                    let shop = shop.clone();
                    async move { (item.clone(), order(shop, item).await) }
                })
                .collect(),
        )
    }

    pub(crate) async fn answers(self) -> Vec<(String, OrderAnswer)> {
        self.0.join_all().await
    }
}

/// The order that was charged under each token of an item. Locks do not share tokens.
pub(crate) type Charges = BTreeMap<(String, FencingToken), Order>;

/// The payments of a shop: they wait while the counter is closed.
#[derive(Clone)]
pub(crate) struct Counter {
    is_open: watch::Sender<bool>,
    charges: Arc<Mutex<Charges>>,
}

impl Default for Counter {
    fn default() -> Self {
        Self { is_open: watch::channel(false).0, charges: Arc::default() }
    }
}

impl Counter {
    pub(crate) fn open(&self) {
        self.is_open.send_replace(true);
    }

    pub(crate) fn charges(&self) -> Charges {
        self.charges.lock().expect("no panic").clone()
    }

    /// Waits until each item is being paid: its lock is held, and the work is between its read and its write.
    pub(crate) async fn until_all_are_amid_a_sale(&self) {
        let all = async || self.charges().len() == ITEMS;
        eventually("all are amid a sale", LIMIT, all).await;
    }
}

#[async_trait]
impl Payment for Counter {
    async fn charge(&self, item: &str, token: FencingToken) {
        let order = Order::current().expect("an order");
        self.charges.lock().expect("no panic").insert((item.to_owned(), token), order);
        let mut open = self.is_open.subscribe();
        open.wait_for(|open| *open).await.expect("the counter stands");
    }
}
