//! One disturbance at one moment of a sale.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use futures_util::future::join_all;
use lock_testkit::{Mode, RedisServer, eventually};
use tokio::time::sleep;

use crate::answer::{OrderAnswer, order};
use crate::counter::{LIMIT, Orders, Scene, items};
use crate::shop::Shop;

const MINUTE: Duration = Duration::from_secs(60);

/// Fault of the server, or of the network before it.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Stop,
    Kill,
    Network(Mode),
}

/// Faults that make the server silent or unreachable.
const FAULTS: [Fault; 6] = [
    Fault::Stop,
    Fault::Kill,
    Fault::Network(Mode::BlackHole),
    Fault::Network(Mode::SwallowReplies),
    Fault::Network(Mode::SwallowRequests),
    Fault::Network(Mode::CutAfter(0)),
];

impl Fault {
    fn begin(self, scene: &mut Scene) {
        match self {
            Self::Stop => scene.server.stop(),
            Self::Kill => scene.server.kill(),
            Self::Network(mode) => scene.proxy.set(mode),
        }
    }

    async fn end(self, scene: &mut Scene) {
        match self {
            Self::Stop => scene.server.cont(),
            Self::Kill => scene.server.restart().await,
            Self::Network(_) => {
                scene.proxy.set(Mode::Pass);
                scene.proxy.cut();
            }
        }
    }
}

/// Opens a shop in the middle of a sale of each item: each lock is held, and the counter is closed.
async fn amid_sales(ttl: Duration) -> (Scene, Arc<Shop>, Orders) {
    let scene = Scene::set(ttl).await;
    let shop = scene.shop().await;
    let orders = Orders::of_each_item(&shop);
    scene.counter.until_all_are_amid_a_sale().await;
    (scene, shop, orders)
}

fn assert_all_sold(answers: &[(String, OrderAnswer)], fault: Fault) {
    for (_, answer) in answers {
        assert!(answer.is_sold() && !answer.reports_loss(), "{fault:?}: {answer:?}");
    }
}

/// During the acquisition: nothing is sold, each buyer is told to come again, and nothing is left behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_away_while_a_sale_begins_sells_nothing() {
    let mut scene = Scene::set(MINUTE).await;
    let shop = scene.shop().await;
    scene.assert_sells(&shop).await;
    for fault in FAULTS {
        let before: Vec<_> = items().map(|item| scene.taken(&item)).collect();
        fault.begin(&mut scene);
        let answers = Orders::of_each_item(&shop).answers().await;
        let told = answers.iter().map(|(_, answer)| answer.status);
        let come_again = [StatusCode::CONFLICT, StatusCode::SERVICE_UNAVAILABLE];
        assert!(told.clone().all(|status| come_again.contains(&status)), "{fault:?}: {answers:#?}");
        fault.end(&mut scene).await;
        let after: Vec<_> = items().map(|item| scene.taken(&item)).collect();
        assert_eq!(before, after, "{fault:?}");
        // C19: long before the TTL of a minute expires.
        scene.assert_sells(&shop).await;
    }
}

/// C47: a server that is down between grant and release causes no failure of a sale that finishes before the
/// deadline. This covers a lost reply to the release.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c47_a_server_that_is_away_at_the_end_makes_no_failure_of_a_sale() {
    join_all(FAULTS.map(async |fault| {
        let (mut scene, shop, orders) = amid_sales(MINUTE).await;
        fault.begin(&mut scene);
        scene.counter.open();
        let answers = orders.answers().await;
        assert_all_sold(&answers, fault);
        fault.end(&mut scene).await;
        scene.assert_exact(&answers);
        scene.assert_sells(&shop).await;
    }))
    .await;
}

/// C8: an outage that is shorter than two thirds of the TTL is no loss.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c08_a_short_outage_amid_a_sale_is_borne() {
    // A busy machine may take seconds to restart the server.
    let ttl = Duration::from_secs(24);
    join_all(FAULTS.map(async |fault| {
        let (mut scene, _, orders) = amid_sales(ttl).await;
        fault.begin(&mut scene);
        sleep(ttl / 2).await;
        fault.end(&mut scene).await;
        scene.counter.open();
        let answers = orders.answers().await;
        assert_all_sold(&answers, fault);
        scene.assert_exact(&answers);
    }))
    .await;
}

/// C8, C13: an outage that is longer than the TTL is a loss. Each buyer is told, and nothing is written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c08_a_long_outage_amid_a_sale_is_told_to_the_buyer() {
    let ttl = Duration::from_secs(3);
    join_all(FAULTS.map(async |fault| {
        let (mut scene, shop, orders) = amid_sales(ttl).await;
        fault.begin(&mut scene);
        let answers = tokio::time::timeout(LIMIT, orders.answers()).await.expect("losses are told");
        for (item, answer) in &answers {
            assert!(answer.is_uncertain(), "{fault:?}: {answer:?}");
            assert_eq!(scene.taken(item), 0, "{fault:?}");
        }
        fault.end(&mut scene).await;
        scene.assert_sells(&shop).await;
    }))
    .await;
}

/// C47: if another client ends a hold just before its sale is written, the loss is reported, and a sale that the
/// fence let pass counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c47_an_eviction_at_the_end_is_reported_and_the_sale_stands() {
    let (scene, _, orders) = amid_sales(MINUTE).await;
    for item in items() {
        scene.server.cli(&["DEL", &format!("stock:{item}")]);
    }
    scene.counter.open();
    let answers = orders.answers().await;
    for (_, answer) in &answers {
        assert!(answer.is_sold() && answer.reports_loss(), "{answer:?}");
    }
    scene.assert_exact(&answers);
}

/// S4: a store that forgets its holds lets a second buyer in. The fence refuses the first buyer's write, and that
/// buyer is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s4_a_store_that_forgets_sells_nothing_twice() {
    let mut scene = Scene::on(RedisServer::start().await, MINUTE).await;
    let (shop, other) = (scene.shop().await, scene.shop_beside().await);
    let first = Orders::of_each_item(&shop);
    scene.counter.until_all_are_amid_a_sale().await;
    scene.server.restart().await;
    // The counter is closed for the first order only. It opens once the second order is between its read and its
    // write too.
    let second = Orders::of_each_item(&other);
    let all = async || scene.counter.charges().len() == 2 * items().count();
    eventually("a second holder of each lock", LIMIT, all).await;
    scene.counter.open();
    let (first, second) = (first.answers().await, second.answers().await);
    for (_, answer) in &first {
        assert_eq!(answer.status, StatusCode::CONFLICT, "{answer:?}");
    }
    for (_, answer) in &second {
        assert!(answer.is_sold() && !answer.reports_loss(), "{answer:?}");
    }
    let answers: Vec<_> = first.into_iter().chain(second).collect();
    scene.assert_exact(&answers);
    assert!(order(shop, "lamp-0".into()).await.is_sold());
}
