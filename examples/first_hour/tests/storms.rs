//! Random disturbances while many customers buy.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use leasehold::FencingToken;
use lock_testkit::{Mode, Reply};
use rand::random_range;
use tokio::time::sleep;

use crate::answer::{OrderAnswer, order};
use crate::counter::{Scene, items};
use crate::shop::Shop;

/// Duration of the disturbances.
const STORM: Duration = Duration::from_secs(8);

/// Number of parallel buyers of each item at each instance.
const BUYERS: usize = 2;

/// S4, C47: after outages at any time, the stock agrees with the answers to the buyers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s4_the_stock_is_exact_through_outages_at_any_moment() {
    let mut scene = Scene::set(Duration::from_secs(1)).await;
    let shops = [scene.shop().await, scene.shop().await];
    scene.counter.open();
    let end = Instant::now() + STORM;
    let buying = tokio::spawn(crowd(shops, end));
    while Instant::now() < end {
        disturb(&mut scene).await;
        sleep(Duration::from_millis(random_range(0..200))).await;
    }
    scene.proxy.set(Mode::Pass);
    scene.proxy.cut();
    let answers = buying.await.expect("no panic");
    let sold = answers.iter().filter(|(_, answer)| answer.is_sold()).count();
    assert!(sold > 10, "only {sold} were sold");
    scene.assert_exact(&answers);
}

/// C47: if each release asks the server, the service reports every eviction: its hold did not last.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c47_no_eviction_goes_unreported() {
    let mut scene = Scene::set(Duration::from_secs(30)).await;
    scene.local_hand_off = false;
    // C47: a release without an answer in time does not report an eviction. A busy machine must not cause that.
    scene.request_timeout = Duration::from_secs(20);
    let shops = [scene.shop().await, scene.shop_beside().await];
    scene.counter.open();
    let end = Instant::now() + STORM / 2;
    let buying = tokio::spawn(crowd(shops, end));
    let mut evicted = BTreeSet::new();
    while Instant::now() < end {
        let item = format!("lamp-{}", random_range(0..items().count()));
        evicted.extend(evict(&scene, &item).map(|token| (item, token)));
        sleep(Duration::from_millis(1)).await;
    }
    let answers = buying.await.expect("no panic");
    let charges = scene.counter.charges();
    let lost: BTreeSet<_> = evicted.iter().filter_map(|hold| charges.get(hold)).collect();
    assert!(lost.len() > 10, "only {} sales were met", lost.len());
    for (_, answer) in answers.iter().filter(|(_, answer)| lost.contains(&answer.order)) {
        assert!(answer.reports_loss(), "evicted, and nobody is told: {answer:?}");
    }
    scene.assert_exact(&answers);
}

/// Buys all items at all instances until `end`; returns the answer to each buyer.
async fn crowd(shops: [Arc<Shop>; 2], end: Instant) -> Vec<(String, OrderAnswer)> {
    let buyers = items().flat_map(|item| {
        let places = shops.iter().cloned().cycle().take(BUYERS * shops.len());
        places.map(move |shop| keep_buying(shop, item.clone(), end))
    });
    let buyers: Vec<_> = buyers.map(tokio::spawn).collect();
    let told = join_all(buyers).await;
    told.into_iter().flat_map(|answers| answers.expect("no panic")).collect()
}

async fn keep_buying(shop: Arc<Shop>, item: String, end: Instant) -> Vec<(String, OrderAnswer)> {
    let mut answers = Vec::new();
    while Instant::now() < end {
        answers.push((item.clone(), order(shop.clone(), item.clone()).await));
        sleep(Duration::from_millis(random_range(0..20))).await;
    }
    answers
}

/// Makes one outage of random length: some are longer than the TTL.
async fn disturb(scene: &mut Scene) {
    let span = Duration::from_millis([50, 300, 1500][random_range(0..3)]);
    let modes = [Mode::BlackHole, Mode::SwallowReplies, Mode::SwallowRequests];
    match random_range(0..4) {
        0 => {
            scene.server.stop();
            sleep(span).await;
            scene.server.cont();
        }
        1 => {
            scene.server.kill();
            sleep(span).await;
            scene.server.restart().await;
        }
        2 => scene.proxy.cut(),
        _ => {
            scene.proxy.set(modes[random_range(0..3)]);
            sleep(span).await;
            scene.proxy.set(Mode::Pass);
            scene.proxy.cut();
        }
    }
}

/// Deletes a lock's key, as somebody might by hand; returns the token of the hold.
fn evict(scene: &Scene, item: &str) -> Option<FencingToken> {
    match scene.server.cli(&["GETDEL", &format!("stock:{item}")]) {
        Reply::Text(value) => value.split(':').nth(1).and_then(|token| token.parse().ok()),
        _ => None,
    }
}
