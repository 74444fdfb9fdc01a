//! Sells a stock without any lock: one Lua script checks `stock > 0` and takes one off.
//!
//! Redis runs one script at a time, so nothing comes between the check and the write. Work that fits into one
//! script needs no lock, no lease and no fence. A lock is for work that no script can do, such as a payment
//! between the read and the write.
//!
//! But a script is not a transaction. Redis rolls nothing back. A script that fails midway keeps its earlier
//! writes. So check first, and write last.
//!
//! Without `--url` it starts its own `redis-server`, which must be installed.
//!
//! `cargo run --features redis --example stock_script [-- --url redis://HOST/]`

mod server;
mod shop;

use futures_util::future::try_join_all;

use crate::server::{Failure, Redis, tell};
use crate::shop::{STOCK, Shop};

const BUYERS: u32 = 1000;

/// Number of clients for the buyers, each with its own connection.
const CLIENTS: u32 = 10;

const SELL: &str = include_str!("sell.lua");
const CARELESS: &str = include_str!("careless.lua");

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let redis = Redis::chosen().await;
    let url = &redis.url;
    println!("1. {BUYERS} buyers by {CLIENTS} connections at once, one script, no lock");
    sale(url).await?;
    println!("\n2. A script that fails midway");
    careless(url).await?;
    careful(url).await?;
    Shop::open(url).await?.clear().await
}

/// Lets all buyers come at once.
async fn sale(url: &str) -> Result<(), Failure> {
    let shop = Shop::open(url).await?;
    shop.fill(STOCK).await?;
    let clients = (0..CLIENTS).map(|client| tokio::spawn(serve(url.to_owned(), client)));
    let mut sold = 0;
    for client in try_join_all(clients).await? {
        sold += client?;
    }
    let (left, written_down) = (shop.left().await?, shop.sales().await?);
    tell(
        (sold, left, written_down) == (STOCK, 0, STOCK),
        &format!("{sold} sold of {STOCK}, {written_down} sales written down, {left} left"),
    )
}

/// Serves the buyers of one client, all at the same time; returns the number of sales.
async fn serve(url: String, client: u32) -> Result<u32, Failure> {
    let shop = Shop::open(&url).await?;
    let buyers = (client..BUYERS).step_by(CLIENTS as usize);
    let sales = buyers.map(|buyer| shop.sell(SELL, buyer));
    Ok(try_join_all(sales).await?.into_iter().filter(|sold| *sold).count() as u32)
}

/// Takes a lamp off the stock, and then cannot log the sale.
async fn careless(url: &str) -> Result<(), Failure> {
    let shop = Shop::with_broken_sales(url).await?;
    let error = failure(shop.sell(CARELESS, 1).await)?;
    let left = shop.left().await?;
    tell(
        error.contains("WRONGTYPE") && left == STOCK - 1,
        &format!(
            "wrong: it writes, fails, and Redis keeps the write; none was sold, {left} are left"
        ),
    )
}

/// A sale that fails in the same way, but before it has written anything.
async fn careful(url: &str) -> Result<(), Failure> {
    let shop = Shop::with_broken_sales(url).await?;
    let error = failure(shop.sell(SELL, 1).await)?;
    let left = shop.left().await?;
    tell(
        error.contains("not in a list") && left == STOCK,
        &format!("right: it checks everything first, and fails with {left} of {STOCK} left"),
    )
}

/// Returns the server's message.
fn failure(sale: Result<bool, Failure>) -> Result<String, Failure> {
    match sale {
        Ok(sold) => Err(format!("the script did not fail; sold: {sold}").into()),
        Err(error) => Ok(error.to_string()),
    }
}
