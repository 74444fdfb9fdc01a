//! Format, lints and docs.

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
    "-p lock-core",
    "--workspace --all-features",
];

/// Checks format, then lints with every set of features, then docs.
pub(crate) fn run() -> Done {
    require("fmt", "rustfmt")?;
    require("clippy", "clippy")?;
    step::run(&mut cargo("fmt --all --check"))?;
    for features in FEATURE_SETS {
        step::run(&mut cargo(&format!("clippy {features} --all-targets -- -D warnings")))?;
    }
    let docs = "doc --workspace --all-features --no-deps --document-private-items";
    step::run(cargo(docs).env("RUSTDOCFLAGS", "-Dwarnings"))
}

fn require(subcommand: &str, component: &str) -> Done {
    match step::succeeds(&mut cargo(&format!("{subcommand} --version"))) {
        true => Ok(()),
        false => Err(Failure::new(format!(
            "{component} is missing from the toolchain: `rustup component add {component}`"
        ))),
    }
}
