//! Acquires and releases one lock repeatedly, on one thread. `cargo xtask instructions` counts the processor's
//! instructions meanwhile.
//!
//! Arguments: the URL of the locks, and the number of cycles.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(url), Some(cycles)) = (arguments.next(), arguments.next()) else {
        return Err("give a URL and a number of cycles".into());
    };
    let cycles: u32 = cycles.parse()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(cycle(&url, cycles))?)
}

async fn cycle(url: &str, cycles: u32) -> Result<(), leasehold::LockError> {
    let locks = leasehold::connect(url).await?;
    for _ in 0..cycles {
        locks.acquire("counted").await?.release().await?;
    }
    Ok(())
}
