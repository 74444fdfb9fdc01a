//! The first lines of the README: work under a lock, and the end of the hold.
//!
//! `cargo run -p quickstart [URL]`

use std::time::Duration;

use clap::Parser;
use leasehold::LockRequest;

#[derive(Parser)]
struct Args {
    /// URL of the locks.
    #[arg(env = "LEASEHOLD_URL", hide_env_values = true, default_value = "memory:")]
    url: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let locks = leasehold::connect(&Args::parse().url).await?;
    println!("{}", locks.capabilities());

    let request = LockRequest::new("quickstart").ttl(Duration::from_secs(5)).label("example");
    let sale = locks.with(request, async |held| {
        println!("held under token {}", held.token());
        "one item"
    });
    println!("sold {}, and held the lock to the end", sale.await?.into_value()?);
    Ok(())
}
