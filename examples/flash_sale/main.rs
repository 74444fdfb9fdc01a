//! A flash sale: 100 items, 1,000 buyers, and 10 worker processes that serve them.
//!
//! ```sh
//! cargo run --release --example flash_sale
//! cargo run --release --features redis --example flash_sale -- --url redis://127.0.0.1/
//! ```
//!
//! Three acts. Without a lock the shop oversells. With a lock it sells exactly its stock. In the third act the
//! system stops a worker between its read and its write for longer than its lease. The late write ruins a shop
//! that trusts only the lock. A shop that checks fencing tokens refuses it.
//!
//! Options change the size of the sale, but not the acts:
//!
//! ```sh
//! cargo run --release --example flash_sale -- --workers 4 --tasks 16 --items 20 --buyers 500
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
mod stop;
mod telling;
mod verdict;
mod worker;

use std::process::ExitCode;

use clap::Parser;

use crate::act::Act;
use crate::orders::{Args, Role};
use crate::played::Played;
use crate::sale::{Failure, Sale};
use crate::stage::Stage;

fn main() -> ExitCode {
    let args = Args::parse();
    let done = match (args.url, args.role) {
        // The workers are this program, started again with other arguments.
        (Some(url), Some(Role::Worker(orders))) => {
            worker::run(&url, orders).map(|()| ExitCode::SUCCESS)
        }
        (url, _) => show(url, args.sale),
    };
    done.unwrap_or_else(|error| {
        eprintln!("flash_sale: {}", telling::with_causes(&*error));
        ExitCode::FAILURE
    })
}

/// Plays the acts, one after the other, and judges them.
fn show(url: Option<String>, sale: Sale) -> Result<ExitCode, Failure> {
    sale.check()?;
    stop::hear_requests()?;
    let stage = Stage::set(url, sale)?;
    telling::opening(&stage);
    let mut played = Vec::new();
    for act in Act::ALL {
        let result = stage.play(act)?;
        telling::act(&result);
        played.push(result);
    }
    telling::summary(&played);
    Ok(judge(&played))
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
