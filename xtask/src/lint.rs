//! Format, clauses, links, lints and docs.

mod cases;
mod clauses;
mod links;
mod source;

use crate::step::{self, Done, Failure};
use crate::workspace::cargo;

/// Every set of features somebody may build with, so that none breaks unseen. A library is built without its
/// tests too, which ask for more of its dependencies than it may. What no test and no example asks for by itself is
/// built as a library alone. The benches want all backends, and so would give them to all.
const FEATURE_SETS: &[&str] = &[
    "--workspace --all-features --all-targets",
    "-p lock-cli --all-targets",
    "-p leasehold -p lock-cli -p memcached-backend --no-default-features --lib",
    "-p leasehold -p lock-core -p lock-redis --features leasehold/redis --all-targets",
    "-p leasehold -p lock-etcd --features leasehold/etcd --all-targets",
    "-p leasehold -p lock-postgres --features leasehold/postgres --all-targets",
    "-p leasehold --features metrics --all-targets",
    "-p leasehold --features redis-rustls --lib --test redis",
    "-p leasehold --features redis-cluster,redis-sentinel --lib",
    "-p leasehold --features redis-quorum --lib --test redis_quorum",
    "-p leasehold --features redis-native-tls,postgres-native-tls --lib",
    "-p leasehold --features serde --lib",
    "-p leasehold --features testing --lib",
];

/// The docs as their authors read them, and as a build with default features shows them.
const DOCS: &[&str] = &[
    "--workspace --all-features --document-private-items",
    "-p leasehold -p lock-core -p lock-file",
];

/// Checks format, then what only this project demands, then lints with every set of features, then
/// docs.
pub(crate) fn run() -> Done {
    require("fmt", "rustfmt")?;
    require("clippy", "clippy")?;
    step::run(&mut cargo("fmt --all --check"))?;
    house_rules()?;
    for features in FEATURE_SETS {
        step::run(&mut cargo(&format!("clippy {features} -- -D warnings")))?;
    }
    DOCS.iter().try_for_each(|what| docs(what))
}

/// Builds docs, in which nothing may be warned of and no link may be dead.
///
/// One after the other: cargo takes the old docs of a crate away before it makes new ones, and a crate that is
/// documented at that moment would find nothing to link to.
fn docs(what: &str) -> Done {
    links::empty_docs()?;
    step::run(cargo(&format!("doc --jobs 1 --no-deps {what}")).env("RUSTDOCFLAGS", "-Dwarnings"))?;
    println!("+ links of the docs");
    report(&links::dead_in_docs()?)
}

/// Checks that clauses and code agree, that every case of a suite is run, and that the links of the pages
/// lead somewhere. Tells all that is wrong at once.
fn house_rules() -> Done {
    println!("+ clauses, cases and links");
    let sources = source::with_endings(&[".rs", ".lua", ".sql"])?;
    let mut problems = clauses::problems(&source::read(clauses::PAGE)?, &sources);
    problems.extend(cases::problems(&sources)?);
    problems.extend(links::dead_in_pages(&source::with_endings(&[".md"])?));
    report(&problems)
}

fn report(problems: &[String]) -> Done {
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
