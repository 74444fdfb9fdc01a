//! An HTTP service whose handler takes a lock with a bounded wait, and writes fenced.
//!
//! Two instances of a shop serve `POST /buy/{item}` from one stock. They share nothing but the store
//! of the locks and the stock itself, as two hosts would. A burst of forty buyers comes for ten
//! lamps; those who are told to come again do.
//!
//! | answer | when | come again? |
//! | --- | --- | --- |
//! | 200 | sold | |
//! | 409 | another request holds the lock, or has overtaken this one | at once, or a little later |
//! | 410 | sold out | no |
//! | 503 | the server of the locks is away, or did not answer in time | later |
//!
//! ```sh
//! cargo run --example axum_service [-- --url URL]
//! cargo run --example axum_service -- --serve 127.0.0.1:8080    # until Ctrl-C
//! ```

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path as Segment, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use clap::Parser;
use futures_util::future::try_join_all;
use leasehold::file::FileFence;
use leasehold::{Fence, FenceError, FencingToken, LockClient, LockError, LockRequest, Wait};
use tokio::net::TcpListener;

const ITEM: &str = "lamp";
const STOCK: u32 = 10;
const BUYERS: usize = 40;

/// How often a buyer comes before giving up.
const PATIENT_BUYER: u32 = 100;

/// How long a payment takes: it stands between the read and the write.
const PAYMENT: Duration = Duration::from_millis(20);

/// How long a buyer is kept waiting before the answer is "busy": shorter than any client's or
/// proxy's own time-out, so that nobody works for a caller who has left.
const MAX_WAIT: Duration = Duration::from_millis(150);

type Failure = Box<dyn Error + Send + Sync>;
type Answer = Result<String, NoSale>;

#[derive(Parser)]
struct Args {
    /// Where the locks are; a directory of its own if it is not said.
    #[arg(long, env = "LEASEHOLD_URL", hide_env_values = true)]
    url: Option<String>,
    /// Serve at this address until Ctrl-C, instead of playing the burst.
    #[arg(long, value_name = "ADDRESS")]
    serve: Option<String>,
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let args = Args::parse();
    let home = tempfile::tempdir()?;
    let url = args.url.unwrap_or_else(|| format!("file:{}", home.path().join("locks").display()));
    std::fs::write(home.path().join(ITEM), STOCK.to_string())?;
    let shop = || Shop::open(&url, home.path());
    match args.serve {
        Some(address) => serve(shop().await?, TcpListener::bind(address).await?).await,
        None => burst([shop().await?, shop().await?], home.path()).await,
    }
}

/// One instance of the service.
struct Shop {
    locks: LockClient,
    home: PathBuf,
}

/// Why nothing was sold.
#[derive(Debug, thiserror::Error)]
enum NoSale {
    #[error("no such item")]
    Unknown,
    #[error("sold out")]
    SoldOut,
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Fence(#[from] FenceError),
    #[error("cannot read the stock")]
    Stock(#[from] io::Error),
}

impl Shop {
    async fn open(url: &str, home: &Path) -> Result<Arc<Self>, LockError> {
        Ok(Arc::new(Self { locks: leasehold::connect(url).await?, home: home.to_owned() }))
    }

    /// Sells one item, and says how many are left.
    ///
    /// If the client hangs up, axum drops this future wherever it is: nothing more is written then,
    /// and the lock, or the place in its queue, is given back.
    async fn sell(&self, item: &str) -> Result<u32, NoSale> {
        if item != ITEM {
            return Err(NoSale::Unknown);
        }
        let request = LockRequest::new(format!("stock:{item}"))
            .ttl(Duration::from_secs(5))
            .wait(Wait::AtMost(MAX_WAIT));
        // If the lock is lost, the sale is dropped.
        let sale =
            self.locks.with(request, async |held| self.sell_under(held.token()).await).await?;
        if let Err(lost) = sale.hold {
            // The fence let the write pass, so the sale stands all the same.
            eprintln!("noticed after the sale: {lost}");
        }
        sale.value
    }

    /// Advances the fence, then reads, then writes.
    async fn sell_under(&self, token: FencingToken) -> Result<u32, NoSale> {
        let stock = self.home.join(ITEM);
        let fence = FileFence::open(self.home.join("fence"))?;
        fence.advance(token).await?;
        let left = tokio::fs::read_to_string(&stock).await?;
        let left: u32 = left.parse().map_err(io::Error::other)?;
        let left = left.checked_sub(1).ok_or(NoSale::SoldOut)?;
        tokio::time::sleep(PAYMENT).await;
        fence.write(token, &stock, left.to_string().as_bytes()).await?;
        Ok(left)
    }
}

impl IntoResponse for NoSale {
    fn into_response(self) -> Response {
        let status = match &self {
            Self::Unknown => StatusCode::NOT_FOUND,
            Self::SoldOut => StatusCode::GONE,
            Self::Lock(
                LockError::NotAcquired { .. } | LockError::Timeout { .. } | LockError::Lost { .. },
            ) => StatusCode::CONFLICT,
            Self::Fence(error) if error.is_stale() => StatusCode::CONFLICT,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        (status, self.to_string()).into_response()
    }
}

async fn buy(State(shop): State<Arc<Shop>>, Segment(item): Segment<String>) -> Answer {
    shop.sell(&item).await.map(|left| format!("sold; {left} left"))
}

async fn serve(shop: Arc<Shop>, listener: TcpListener) -> Result<(), Failure> {
    println!("POST http://{}/buy/{ITEM}", listener.local_addr()?);
    let app = Router::new().route("/buy/{item}", post(buy)).with_state(shop.clone());
    let until = async { drop(tokio::signal::ctrl_c().await) };
    axum::serve(listener, app).with_graceful_shutdown(until).await?;
    // Returns once the server of the locks knows that nothing is held.
    shop.locks.shutdown().await;
    Ok(())
}

/// Lets all buyers come at once, to either instance, and counts what they were told.
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
        // The last buyers have their answers before the lock is given back.
        shop.locks.shutdown().await;
    }
    let left = std::fs::read_to_string(home.join(ITEM))?;
    println!("{BUYERS} buyers for {STOCK} lamps: {sold} sold, {sold_out} told that none is left;");
    println!("{busy} times a buyer was told to come again, and did; left: {left}");
    match (sold, sold_out, left.as_str()) {
        (STOCK, _, "0") => Ok(()),
        _ => Err("the shop sold more or less than it had".into()),
    }
}

/// Buys, and comes again while the answer says that this may help; counts how often it did.
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
