//! The mistakes of the usual blog posts, on a real Redis: each shown failing, and then done right.
//!
//! The wrong halves use nothing but `redis`, as the posts do; the right halves use Leasehold. Without
//! `--url` it starts a `redis-server` of its own, which has to be installed.
//!
//! `cargo run --features redis --example mistakes [-- --url redis://HOST/]`

mod compare_then_delete;
mod delete_without_check;
mod expire_apart;
mod no_renewal;
#[path = "../redis_story/mod.rs"]
mod redis_story;
mod stage;
mod token_after_read;

use crate::redis_story::{Failure, Redis};
use crate::stage::Stage;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let redis = Redis::chosen().await;
    let stage = Stage::set(&redis.url).await?;

    println!("1. SETNX, then EXPIRE");
    expire_apart::wrong(&stage).await?;
    expire_apart::right(&stage).await?;
    println!("\n2. DEL without asking whose it is");
    delete_without_check::wrong(&stage).await?;
    delete_without_check::right(&stage).await?;
    println!("\n3. GET, compare, DEL: three steps");
    compare_then_delete::wrong(&stage).await?;
    compare_then_delete::right(&stage).await?;
    println!("\n4. A TTL, and work that takes longer");
    no_renewal::wrong(&stage).await?;
    no_renewal::right(&stage).await?;
    println!("\n5. A token that is checked only at the write");
    token_after_read::wrong(&stage).await?;
    token_after_read::right(&stage).await?;
    Ok(())
}
