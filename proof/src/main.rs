//! Plays simulated worlds, and tells which broke a clause.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use lock_proof::{Flaw, WorldReport, play};

/// Plays simulated worlds of Leasehold's engine, one seed each, and judges all that happened.
#[derive(Parser)]
struct Worlds {
    /// Plays this world alone, and prints its trace.
    #[arg(long)]
    seed: Option<u64>,
    /// The seed of the first world.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Number of worlds.
    #[arg(long)]
    worlds: Option<u64>,
    /// Plays for so many seconds, unless a number is given.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// A fault that is put in, and must be noticed.
    #[arg(long)]
    flaw: Option<Flaw>,
    /// Prints a table of all flaws: the clauses that each breaks, and the share of worlds that notice it.
    #[arg(long)]
    flaws: bool,
}

/// Worlds with each flaw, unless a number is given.
const WORLDS_OF_A_FLAW: u64 = 1000;

/// Most worlds with a flaw that none of them notices.
const LONGEST_SEARCH: u64 = 100_000;

fn main() -> ExitCode {
    let worlds = Worlds::parse();
    let is_clean = match worlds.seed {
        _ if worlds.flaws => tabulate(worlds.worlds.unwrap_or(WORLDS_OF_A_FLAW)),
        Some(seed) => one(seed, worlds.flaw),
        None => many(&worlds),
    };
    if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn one(seed: u64, flaw: Option<Flaw>) -> bool {
    let WorldReport { trace, violations, .. } = play(seed, flaw);
    print!("{trace}");
    violations.is_empty()
}

fn many(worlds: &Worlds) -> bool {
    let (began, end) = (Instant::now(), Duration::from_secs(worlds.seconds));
    let (mut played, mut calls, mut requests, mut holds, mut broken) = (0, 0, 0, 0, 0);
    while worlds.worlds.map_or(began.elapsed() < end, |count| played < count) {
        let seed = worlds.first + played;
        let outcome = play(seed, worlds.flaw);
        played += 1;
        calls += outcome.calls;
        requests += outcome.requests;
        holds += outcome.holds;
        if let Some(first) = outcome.violations.first() {
            broken += 1;
            println!("seed {seed}: {first}");
        }
    }
    let (seconds, last) = (began.elapsed().as_secs_f64(), worlds.first + played.saturating_sub(1));
    let rate = played as f64 / seconds * 60.0;
    println!(
        "worlds {}..={last}: {played} in {seconds:.1} s, {rate:.0} a minute; {calls} calls, {requests} requests, \
         {holds} holds; {broken} broke a clause",
        worlds.first
    );
    broken == 0
}

/// Prints a row for each flaw. Returns true if each is noticed.
fn tabulate(worlds: u64) -> bool {
    println!("| flaw | clauses that it breaks, with their first seeds | worlds that notice it |");
    println!("| --- | --- | --- |");
    let mut is_each_noticed = true;
    for &flaw in Flaw::ALL {
        let (mut clauses, mut noticed) = (Vec::<(String, u64)>::new(), 0);
        for seed in 0..LONGEST_SEARCH {
            if seed >= worlds && !clauses.is_empty() {
                break;
            }
            let violations = play(seed, Some(flaw)).violations;
            noticed += u64::from(seed < worlds && !violations.is_empty());
            for violation in violations {
                let clause = violation.split(':').next().unwrap_or_default();
                if !clauses.iter().any(|(known, _)| known == clause) {
                    clauses.push((clause.to_owned(), seed));
                }
            }
        }
        is_each_noticed &= !clauses.is_empty();
        let clauses: Vec<_> =
            clauses.iter().map(|(clause, seed)| format!("{clause} ({seed})")).collect();
        let share = noticed as f64 * 100.0 / worlds as f64;
        println!("| `{flaw}`: {} | {} | {share:.1} % |", flaw.what(), clauses.join(", "));
    }
    is_each_noticed
}
