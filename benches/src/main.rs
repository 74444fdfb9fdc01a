//! Measures the cost of a lock: the project beside its peers, and beside the floor of each store.
//!
//! `cargo xtask bench [--backend B]... [--workload W]... [--quick] [--json FILE] [--svg FILE] [--readme]`
//!
//! ```text
//! store ── contenders: leasehold, its peers ──┐
//!       └─ floors: plain writes, a message ───┴─ workload, in rounds ── figures ── table, targets, picture
//! ```
//!
//! Each store runs on its own server. All contenders do the same work, in turn within each round, so that all see
//! the same machine. Reports show the medians of the rounds. The ratios are what matters, since absolute figures
//! change with the machine.

mod backend;
mod child;
mod client;
mod contender;
mod cpu;
mod crowd;
mod effort;
mod figures;
mod network;
mod options;
mod ours;
mod report;
mod round;
mod stores;
mod targets;
mod times;
mod workloads;

use clap::Parser;

use crate::client::Result;
use crate::figures::Figures;
use crate::options::{Arguments, Options};
use crate::round::Round;

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    match arguments.role {
        Some(role) => workloads::play(role).await,
        None => bench(&arguments.options).await,
    }
}

async fn bench(options: &Options) -> Result<()> {
    let (effort, mut figures) = (options.effort(), Figures::default());
    for backend in options.backends() {
        let store = backend.start().await?;
        for workload in options.workloads().filter(|workload| workload.is_of(backend)) {
            for _ in 0..workload.rounds(effort) {
                let round = Round { backend, store: &*store, effort, figures: &mut figures };
                if let Err(error) = workload.run(round).await {
                    eprintln!("{}, {workload:?}: {error}", backend.name());
                }
            }
            report::lines(&figures, backend, workload);
        }
    }
    report::write(&figures, options)
}
