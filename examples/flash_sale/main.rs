//! A flash sale: 100 items, 1,000 buyers, and 10 worker processes that serve them.
//!
//! ```sh
//! cargo run --release -p flash_sale
//! cargo run --release -p flash_sale --features leasehold/redis -- --url redis://127.0.0.1/
//! ```
//!
//! Four acts, a row of a table each. Without a lock the shop oversells. With a lock the shop sells exactly its stock.
//! In the third act the system stops a worker between its read and its write for longer than its lease. The late write
//! ruins a shop that trusts only the lock. In the fourth act the shop checks fencing tokens and refuses the late write.
//!
//! Options change the size of the sale, but not the acts:
//!
//! ```sh
//! cargo run --release -p flash_sale -- --workers 4 --tasks 16 --items 20 --buyers 500
//! ```
//!
//! The shop is files in a temporary directory, whatever store the locks are in, so every `--url` tells the same
//! story. The exit code is 0 only if each act had the announced result.

mod act;
mod crew;
mod news;
mod orders;
mod played;
mod sale;
mod shop;
mod stage;
mod telling;
mod verdict;
mod worker;

use std::future::pending;
use std::process::ExitCode;

use clap::Parser;

use crate::act::Act;
use crate::orders::Args;
use crate::played::Played;
use crate::sale::{Failure, Sale};
use crate::stage::Stage;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args = Args::parse();
    let done = match (args.url, args.orders) {
        // The workers are this program, started again with other arguments.
        (Some(url), Some(orders)) => worker::run(&url, orders).await.map(|()| ExitCode::SUCCESS),
        // Dropping the show removes its processes and files.
        (url, _) => tokio::select! {
            judged = show(url, args.sale) => judged,
            () = asked_to_end() => Err("interrupted".into()),
        },
    };
    done.unwrap_or_else(|error| {
        eprintln!("flash_sale: {}", telling::with_causes(&*error));
        ExitCode::FAILURE
    })
}

/// Plays the acts, one after the other, and judges them.
async fn show(url: Option<String>, sale: Sale) -> Result<ExitCode, Failure> {
    sale.check()?;
    let stage = Stage::set(url, sale).await?;
    telling::opening(&stage);
    let mut played = Vec::new();
    for act in Act::ALL {
        let result = stage.play(act).await?;
        telling::row(&result);
        played.push(result);
    }
    telling::stopped_holders(&played);
    Ok(judge(&played))
}

/// Waits for Ctrl-C or SIGTERM.
async fn asked_to_end() {
    use tokio::signal::unix::{SignalKind, signal};
    // Without a handler the system ends the process, which is the default.
    let Ok(mut terminated) = signal(SignalKind::terminate()) else { return pending().await };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminated.recv() => {}
    }
}

fn judge(played: &[Played]) -> ExitCode {
    let objections: Vec<_> = played.iter().flat_map(verdict::objections).collect();
    for objection in &objections {
        eprintln!("Not as told: {objection}.");
    }
    match objections.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
