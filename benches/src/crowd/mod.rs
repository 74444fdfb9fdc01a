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
mod verbs;

use std::sync::Arc;
use std::time::Duration;

use leasehold::{ClientOptions, DistributedLock, LockClient};

use self::foreign::Watched;
use self::verbs::Verb;
use crate::backend::Backend;
use crate::client::Result;
use crate::contender::Contender;

/// Fills a store, and measures the worst delay of a foreign client beside each verb.
#[derive(clap::Args)]
#[command(override_usage = "cargo xtask crowd [OPTIONS] <STORE>")]
pub(crate) struct Crowd {
    /// The store to fill.
    store: Backend,
    #[command(flatten)]
    size: Size,
}

/// A store's clients: the project, and one that knows nothing of the project's locks.
struct Clients {
    url: String,
    backend: Arc<dyn DistributedLock>,
    locks: LockClient,
    foreign: Contender,
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

impl Crowd {
    pub(crate) async fn play(self) -> Result<()> {
        let store = self.store.start().await?;
        let backend = leasehold::backend(&store.url()).await?;
        let locks = LockClient::from_arc(Arc::clone(&backend), ClientOptions::default());
        let foreign = self.store.with_floor().find(|contender| !contender.is_ours());
        let foreign = foreign.ok_or("no other client uses this store")?;
        let clients = Clients { url: store.url(), backend, locks, foreign };
        let empty = clients.run_verbs().await?;
        fill::fill(&clients, self.size).await?;
        report(&empty, &clients.run_verbs().await?)
    }
}

impl Clients {
    /// Runs each verb beside the foreign client.
    async fn run_verbs(&self) -> Result<Vec<Watched>> {
        let mut seen = Vec::new();
        for verb in Verb::ALL {
            seen.push(Box::pin(self.watch(verb.run(&self.locks))).await?);
        }
        Ok(seen)
    }
}

/// Prints both states side by side. Fails if a verb delays the foreign client for too long, or has no answer.
fn report(empty: &[Watched], filled: &[Watched]) -> Result<()> {
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
    if kept { Ok(()) } else { Err("a verb holds up others, or has no answer".into()) }
}
