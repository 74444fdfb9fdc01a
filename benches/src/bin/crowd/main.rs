//! Fills a store with names, records of runs, marks of withdrawn claims and waiters, and runs every verb beside a
//! foreign client of the same server. The client's worst delay may be twice that of the empty store, and up to 20 ms is
//! taken as noise of the machine.
//!
//! `cargo xtask crowd STORE [--names N] [--runs N] [--marks N] [--waiters N]`
//!
//! ```text
//! server ──┬── verbs, one after the other     empty ──▶ filled
//!          └── foreign client, asks each ms   worst delay during each verb
//! ```

mod fill;
mod foreign;
mod server;
mod verbs;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use crate::foreign::Watched;
use crate::server::{Server, Store};
use crate::verbs::Verb;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Fills a store, and measures the worst delay of a foreign client beside each verb.
#[derive(Parser)]
#[command(name = "cargo xtask crowd", bin_name = "cargo xtask crowd")]
struct Crowd {
    /// The store to fill.
    store: Store,
    #[command(flatten)]
    size: Size,
}

/// Sizes of the crowd.
#[derive(Clone, Copy, clap::Args)]
struct Size {
    /// Names of locks, each of which was acquired and released once.
    #[arg(long, default_value_t = 1_000_000)]
    names: usize,
    /// Records of runs.
    #[arg(long, default_value_t = 1_000_000)]
    runs: usize,
    /// Marks of withdrawn claims.
    #[arg(long, default_value_t = 100_000)]
    marks: usize,
    /// Claims that wait for one held lock.
    #[arg(long, default_value_t = 10_000)]
    waiters: usize,
}

/// The worst delay beside a verb may be this many times that of the empty store.
const BOUND: u32 = 2;

/// A delay up to this long is the noise of a busy machine.
const NOISE: Duration = Duration::from_millis(20);

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let Crowd { store, size } = Crowd::parse();
    let server = Server::start(store).await?;
    let empty = verbs_beside(&server).await?;
    fill::fill(&server, size).await?;
    let filled = verbs_beside(&server).await?;
    Ok(report(&empty, &filled))
}

/// Runs each verb beside the foreign client.
async fn verbs_beside(server: &Server) -> Result<Vec<Watched>> {
    let mut seen = Vec::new();
    for verb in Verb::ALL {
        seen.push(Box::pin(server.watch(verb.run(&server.locks))).await?);
    }
    Ok(seen)
}

/// Prints both states side by side. Fails if a verb delays the foreign client for too long, or has no answer.
fn report(empty: &[Watched], filled: &[Watched]) -> ExitCode {
    let worst = empty.iter().map(|watched| watched.worst).max().unwrap_or_default();
    let bound = (worst * BOUND).max(NOISE);
    println!(
        "\n{:<12}{:>14}{:>14}{:>18}{:>18}",
        "", "empty", "filled", "foreign, empty", "foreign, filled"
    );
    let mut kept = true;
    for ((verb, before), after) in Verb::ALL.iter().zip(empty).zip(filled) {
        let is_good = after.worst <= bound && after.refused.is_none();
        kept &= is_good;
        let [took, takes, was, is] =
            [before.took, after.took, before.worst, after.worst].map(|span| format!("{span:.1?}"));
        let note = match (&after.refused, is_good) {
            (Some(error), _) => format!("  {error}"),
            (None, true) => String::new(),
            (None, false) => "  too long".to_owned(),
        };
        println!("{:<12}{took:>14}{takes:>14}{was:>18}{is:>18}{note}", verb.name());
    }
    println!("\nworst delay in the empty store {worst:.1?}; bound {bound:.1?}");
    if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
