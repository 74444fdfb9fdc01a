//! The six lines of the README, with a guard that is lost and says so.
//!
//! `cargo run --example quickstart [URL]`

use std::time::Duration;

use leasehold::LockRequest;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let locks = leasehold::connect(&url).await?;
    println!("{}", locks.capabilities());

    let request = LockRequest::new("quickstart").ttl(Duration::from_secs(5)).label("example");
    let guard = locks.acquire(request).await?;
    println!("held under token {}", guard.token());

    let sold = guard.run(async { "one item" }).await?;
    println!("sold {sold}; released: {:?}", guard.release().await?);
    Ok(())
}
