//! Sells a stock without any lock: one Lua script checks `stock > 0` and takes one off.
//!
//! Redis runs one script at a time, so nothing comes between the check and the write. Work that fits into one
//! script needs no lock, no lease and no fence. A lock is for work that no script can do, such as a payment
//! between the read and the write.
//!
//! Without `--url` it starts its own `redis-server`, which must be installed.
//!
//! `cargo run -p stock_script [-- --url redis://HOST/]`

use std::error::Error;

use clap::Parser;
use futures_util::future::try_join_all;
use lock_testkit::RedisServer;
use redis::aio::MultiplexedConnection;
use redis::{Script, cmd};

const STOCK: u32 = 100;
const BUYERS: u32 = 1000;

/// Number of clients for the buyers, each with its own connection.
const CLIENTS: u32 = 10;

/// Keys in one slot of a cluster, by their hash tag.
const STOCK_KEY: &str = "example:{lamps}:stock";
const SALES_KEY: &str = "example:{lamps}:sales";

type Failure = Box<dyn Error + Send + Sync>;

#[derive(Parser)]
struct Args {
    /// The Redis server to use instead of one of its own.
    #[arg(long)]
    url: Option<String>,
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    match Args::parse().url {
        Some(url) => sale(&url).await,
        None => {
            let server = RedisServer::start().await;
            sale(&server.url()).await
        }
    }
}

/// Lets all buyers come at once, and counts the sales.
async fn sale(url: &str) -> Result<(), Failure> {
    let mut shop = connect(url).await?;
    let () = cmd("DEL").arg(SALES_KEY).query_async(&mut shop).await?;
    let () = cmd("SET").arg(STOCK_KEY).arg(STOCK).query_async(&mut shop).await?;
    let clients = (0..CLIENTS).map(|client| tokio::spawn(serve(url.to_owned(), client)));
    let mut sold = 0;
    for client in try_join_all(clients).await? {
        sold += client?;
    }
    let left: u32 = cmd("GET").arg(STOCK_KEY).query_async(&mut shop).await?;
    let logged: u32 = cmd("LLEN").arg(SALES_KEY).query_async(&mut shop).await?;
    let () = cmd("DEL").arg(&[STOCK_KEY, SALES_KEY]).query_async(&mut shop).await?;
    println!("{BUYERS} buyers by {CLIENTS} connections at once, one script, no lock:");
    println!("{sold} sold of {STOCK}, {logged} sales in the log, {left} left");
    match (sold, left, logged) == (STOCK, 0, STOCK) {
        true => Ok(()),
        false => Err("the shop sold more or less than it had".into()),
    }
}

/// Serves the buyers of one client, all at the same time; returns the number of sales.
async fn serve(url: String, client: u32) -> Result<u32, Failure> {
    let shop = connect(&url).await?;
    let script = Script::new(include_str!("sell.lua"));
    let sales = (client..BUYERS).step_by(CLIENTS as usize).map(async |buyer| {
        let mut call = script.key(STOCK_KEY);
        call.key(SALES_KEY).arg(buyer).invoke_async::<u32>(&mut shop.clone()).await
    });
    Ok(try_join_all(sales).await?.into_iter().sum())
}

async fn connect(url: &str) -> Result<MultiplexedConnection, Failure> {
    Ok(redis::Client::open(url)?.get_multiplexed_async_connection().await?)
}
