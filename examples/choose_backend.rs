//! The same work on locks that are chosen when the program runs, by their URLs.
//!
//! ```sh
//! cargo run --example choose_backend
//! cargo run --features redis --example choose_backend -- memory: redis://127.0.0.1/
//! ```

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use leasehold::{ClientOptions, DistributedLock, LockClient, LockError, LockGuard, MemoryBackend};

type Failure = Box<dyn Error + Send + Sync>;

#[derive(Parser)]
struct Args {
    /// Where the locks are, one place after the other; memory, then a directory, if it is not said.
    #[arg(env = "LEASEHOLD_URL", hide_env_values = true)]
    urls: Vec<String>,
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let home = tempfile::tempdir()?;
    let mut urls = Args::parse().urls;
    if urls.is_empty() {
        urls = vec!["memory:".into(), format!("file:{}", home.path().join("locks").display())];
    }
    for url in &urls {
        work(&leasehold::connect(url).await?).await?;
    }

    // A client with options of its own takes a backend instead of a URL.
    let backend: Arc<dyn DistributedLock> = leasehold::backend(&urls[0]).await?;
    let options = ClientOptions::new().request_timeout(Duration::from_millis(500));
    work(&LockClient::with_options(backend, options)).await?;

    // And one that is chosen in the code needs no URL.
    work(&LockClient::new(MemoryBackend::new())).await?;

    // A URL that cannot be used says what to do.
    match leasehold::connect("zookeeper://localhost").await {
        Err(error @ LockError::Config { .. }) => println!("{error}"),
        other => return Err(format!("not refused: {other:?}").into()),
    }
    Ok(())
}

/// Knows nothing of the backend. What it needs to know is data: see `Capabilities`.
async fn work(locks: &LockClient) -> Result<(), LockError> {
    println!("{}", locks.capabilities());
    let work = async |held: &LockGuard| println!("  worked under token {}\n", held.token());
    locks.with("stock:42", work).await?.into_value()
}
