//! Format, spelling, links, dependencies, clauses, lints and docs.

mod clauses;
pub(crate) mod public_items;
mod rooms;
pub(crate) mod source;
mod wording;

use crate::step::{self, Done, Failure};
use crate::tools::{self, tool};
use crate::workspace::cargo;
use crate::{mutants, workspace};

/// Sets of features that users may build with, so that a break of any is seen. Libraries are also built without
/// their tests, whose dependencies have more features. A library without tests or examples of its own is built
/// alone. The benches depend on all backends, and so would enable them for all packages.
const FEATURE_SETS: &[&str] = &[
    "--workspace --all-features --all-targets",
    "-p lock-cli --all-targets",
    "-p leasehold -p lock-cli -p memcached-backend --no-default-features --lib",
    "-p leasehold -p lock-core -p lock-redis --features leasehold/redis --all-targets",
    "-p leasehold -p lock-etcd --features leasehold/etcd --all-targets",
    "-p leasehold -p lock-postgres --features leasehold/postgres --all-targets",
    "-p leasehold -p lock-zookeeper --features leasehold/zookeeper --all-targets",
    "-p leasehold --features blocking,metrics --all-targets",
    "-p leasehold --features redis-cluster,redis-sentinel --lib --test redis_topologies",
    "-p leasehold --features redis-quorum --lib --test redis_quorum",
    "-p leasehold --features redis-native-tls,postgres-native-tls --lib",
    "-p leasehold --features testing --lib",
];

/// Docs for the project's authors, and docs of a build with default features. There are no examples in cargo's sense:
/// `--examples` gives dependencies the features that the first set of features has built them with.
const DOCS: &[&str] = &[
    "--workspace --all-features --lib --examples --document-private-items",
    "-p leasehold -p lock-core -p lock-file",
];

/// Checks by external tools. Advisories need the network, so they are checked at a release.
const TOOLS: &[&str] = &[
    "taplo fmt --check",
    "typos",
    "cargo-shear",
    "cargo-deny --log-level error check bans licenses sources",
    "promtool check rules docs/observability/alerts.yaml",
    "promtool test rules docs/observability/alerts.test.yaml",
];

/// Checks formatting, then runs the external tools and the house rules, then lints every set of features, then
/// builds the docs.
pub(crate) fn run() -> Done {
    require("fmt", "rustfmt")?;
    require("clippy", "clippy")?;
    tools::install()?;
    step::run(&mut cargo("fmt --all --check"))?;
    TOOLS.iter().try_for_each(|line| step::run(&mut tool(line)))?;
    links()?;
    house_rules()?;
    for features in FEATURE_SETS {
        step::run(&mut cargo(&format!("clippy {features} -- -D warnings")))?;
    }
    for what in DOCS {
        step::run(cargo(&format!("doc --no-deps {what}")).env("RUSTDOCFLAGS", "-Dwarnings"))?;
    }
    Ok(())
}

/// Checks that the links of all pages lead to a file and to one of its headings. Links to other hosts are not
/// followed.
fn links() -> Done {
    let pages = workspace::files()?
        .into_iter()
        .filter(|path| path.extension().is_some_and(|end| end == "md"));
    step::run(tool("lychee --offline --include-fragments --no-progress").args(pages))
}

/// Checks that clauses and code agree, mutants apply, public items are listed, and comments open plainly. Reports all
/// problems at once.
fn house_rules() -> Done {
    println!("+ clauses, mutants, public items, rooms and wording");
    let sources = source::with_endings(&[".rs", ".lua", ".sql"])?;
    let mut problems = clauses::problems(&source::read(clauses::PAGE)?, &sources);
    problems.extend(mutants::problems()?);
    problems.extend(public_items::problems(&sources)?);
    problems.extend(rooms::problems(&sources));
    problems.extend(wording::problems(&sources));
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
