//! The six lines of the README: take a lock, work under it, give it back.
//!
//! `cargo run --example quickstart [URL]`

use std::time::Duration;

use clap::Parser;
use leasehold::LockRequest;

#[derive(Parser)]
struct Args {
    /// Where the locks are.
    #[arg(env = "LEASEHOLD_URL", hide_env_values = true, default_value = "memory:")]
    url: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let locks = leasehold::connect(&Args::parse().url).await?;
    println!("{}", locks.capabilities());

    let request = LockRequest::new("quickstart").ttl(Duration::from_secs(5)).label("example");
    let guard = locks.acquire(request).await?;
    println!("held under token {}", guard.token());

    let sold = guard.run(async { "one item" }).await?;
    guard.release().await?;
    println!("sold {sold}; the lock was held until then, and is released");
    Ok(())
}
