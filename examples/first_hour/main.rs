//! The finished service of the page `docs/first_hour.md`: an HTTP handler that acquires a lock with a bounded
//! wait, and writes through a fence.
//!
//! Two instances of a shop serve `POST /buy/{item}` from one stock. They share only the store of the locks and
//! the stock, like two hosts. Forty buyers come at once for ten lamps. Each buyer retries as long as the answer
//! allows it.
//!
//! - `shop.rs`: the work under the lock, and the fence of its resource.
//! - `http.rs`: the HTTP answer to each outcome, and the order of the shutdown.
//!
//! The test `first_hour` stops and kills a Redis at the worst moments of these two files.
//!
//! ```sh
//! cargo run -p first_hour [-- --url URL]
//! cargo run -p first_hour -- --serve 127.0.0.1:8080    # until Ctrl-C or SIGTERM
//! ```

mod http;
mod shop;

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::http::StatusCode;
use clap::Parser;
use futures_util::future::try_join_all;
use leasehold::admin::Health;
use leasehold::{FencingToken, LockClient, LockError};
use tokio::net::TcpListener;
use tracing_subscriber::filter::LevelFilter;

use crate::shop::{Payment, Shelf, Shop};

const ITEM: &str = "lamp";
const STOCK: u32 = 10;
const BUYERS: usize = 40;

/// Attempts of a buyer before giving up.
const PATIENT_BUYER: u32 = 100;

type Failure = Box<dyn Error + Send + Sync>;

#[derive(Parser)]
struct Args {
    /// URL of the locks; by default a new directory.
    #[arg(long, env = "LEASEHOLD_URL", hide_env_values = true)]
    url: Option<String>,
    /// Serve at this address until Ctrl-C or SIGTERM, instead of playing the burst.
    #[arg(long, value_name = "ADDRESS")]
    serve: Option<String>,
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    tracing_subscriber::fmt().with_max_level(LevelFilter::INFO).init();
    let args = Args::parse();
    let home = tempfile::tempdir()?;
    let url = args.url.unwrap_or_else(|| format!("file:{}", home.path().join("locks").display()));
    std::fs::write(home.path().join(ITEM), STOCK.to_string())?;
    match args.serve {
        Some(address) => {
            let shop = open(&url, home.path()).await?;
            warn_of_risks(shop.locks()).await?;
            serve(shop, TcpListener::bind(address).await?).await
        }
        None => {
            burst([open(&url, home.path()).await?, open(&url, home.path()).await?], home.path())
                .await
        }
    }
}

/// One instance of the service.
async fn open(url: &str, home: &Path) -> Result<Arc<Shop>, Failure> {
    let shelf = Shelf::open(home, ITEM)?;
    let locks = shop::connect(url, "shop").await?;
    Ok(Arc::new(Shop::new(locks, [(ITEM.to_owned(), shelf)], Card)))
}

/// A payment that always succeeds.
struct Card;

#[async_trait]
impl Payment for Card {
    async fn charge(&self, _item: &str, _token: FencingToken) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Warns at the start of dangers to the locks.
async fn warn_of_risks(locks: &LockClient) -> Result<(), LockError> {
    let findings = locks.admin().doctor().await?;
    for finding in findings.iter().filter(|finding| finding.health != Health::Good) {
        tracing::warn!("{finding}");
    }
    Ok(())
}

async fn serve(shop: Arc<Shop>, listener: TcpListener) -> Result<(), Failure> {
    println!("POST http://{}/buy/{ITEM}", listener.local_addr()?);
    Ok(http::serve(shop, listener, asked_to_end()).await?)
}

/// Waits for Ctrl-C, or for SIGTERM, by which systemd and Kubernetes end a service.
async fn asked_to_end() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminated) = signal(SignalKind::terminate()) else { return };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminated.recv() => {}
    }
}

/// Lets all buyers come at once, to either instance, and counts the answers.
async fn burst(instances: [Arc<Shop>; 2], home: &Path) -> Result<(), Failure> {
    let mut addresses = Vec::new();
    for shop in instances.clone() {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        addresses.push(listener.local_addr()?);
        tokio::spawn(serve(shop, listener));
    }
    let web = reqwest::Client::new();
    let url = |i: usize| format!("http://{}/buy/{ITEM}", addresses[i % addresses.len()]);
    let buyers = (0..BUYERS).map(|i| insist(&web, url(i)));
    let (mut sold, mut sold_out, mut busy) = (0, 0, 0);
    for (status, refusals) in try_join_all(buyers).await? {
        busy += refusals;
        match status {
            StatusCode::OK => sold += 1,
            StatusCode::GONE => sold_out += 1,
            other => return Err(format!("a buyer was told {other}").into()),
        }
    }
    for shop in instances {
        // All buyers have their answers before the lock is released.
        shop.locks().shutdown().await;
    }
    let left = std::fs::read_to_string(home.join(ITEM))?;
    println!("{BUYERS} buyers for {STOCK} lamps: {sold} sold, {sold_out} told that none is left;");
    println!("{busy} times a buyer was told to come again, and did; left: {left}");
    match (sold, sold_out, left.as_str()) {
        (STOCK, _, "0") => Ok(()),
        _ => Err("the shop sold more or less than it had".into()),
    }
}

/// Buys, and retries while the answer says that this may help; counts the refusals.
async fn insist(web: &reqwest::Client, url: String) -> Result<(StatusCode, u32), Failure> {
    for refusals in 0..PATIENT_BUYER {
        match web.post(&url).send().await?.status() {
            StatusCode::CONFLICT | StatusCode::SERVICE_UNAVAILABLE => {}
            status => return Ok((status, refusals)),
        }
        tokio::time::sleep(Duration::from_millis(rand::random_range(10..50))).await;
    }
    Err("a buyer came again and again, and never had an answer".into())
}
