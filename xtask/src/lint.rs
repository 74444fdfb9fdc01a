//! Format, clauses, circles, lints and docs.

mod cases;
mod circles;
mod clauses;
mod source;

use crate::step::{self, Done, Failure};
use crate::workspace::cargo;

/// Every set of features somebody may build with, so that none breaks unseen.
const FEATURE_SETS: &[&str] = &[
    "--workspace",
    "--workspace --no-default-features",
    "-p leasehold --features redis",
    "-p leasehold --features redis-rustls",
    "-p leasehold --features etcd",
    "-p leasehold --features postgres",
    "-p leasehold --features redis-native-tls,postgres-native-tls",
    "-p leasehold --features metrics",
    "-p leasehold --features serde",
    "-p leasehold --features testing",
    "-p lock-core",
    "--workspace --all-features",
];

/// Checks format, then what only this project demands, then lints with every set of features, then
/// docs.
pub(crate) fn run() -> Done {
    require("fmt", "rustfmt")?;
    require("clippy", "clippy")?;
    step::run(&mut cargo("fmt --all --check"))?;
    house_rules()?;
    for features in FEATURE_SETS {
        step::run(&mut cargo(&format!("clippy {features} --all-targets -- -D warnings")))?;
    }
    let docs = "doc --workspace --all-features --no-deps --document-private-items";
    step::run(cargo(docs).env("RUSTDOCFLAGS", "-Dwarnings"))
}

/// Checks that clauses and code agree, that every case of a suite is run, and that files use each other in
/// one direction only. Tells all that is wrong at once.
fn house_rules() -> Done {
    println!("+ clauses, cases and circles");
    let sources = source::with_endings(&[".rs", ".lua", ".sql"])?;
    let mut problems = clauses::problems(&source::read(clauses::PAGE)?, &sources);
    problems.extend(cases::problems(&sources)?);
    problems.extend(circles::problems(&sources)?);
    match problems.len() {
        0 => Ok(()),
        count => Err(Failure::new(format!("{count} house rules broken\n{}", problems.join("\n")))),
    }
}

fn require(subcommand: &str, component: &str) -> Done {
    match step::succeeds(&mut cargo(&format!("{subcommand} --version"))) {
        true => Ok(()),
        false => Err(Failure::new(format!(
            "{component} is missing from the toolchain: `rustup component add {component}`"
        ))),
    }
}
