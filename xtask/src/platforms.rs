//! Checks the types on platforms on which no tests run.

use crate::step::{self, Done, command};

const WINDOWS: &str = "x86_64-pc-windows-gnu";
const MACOS: &str = "aarch64-apple-darwin";

/// TLS is left out, since it compiles C for the platform.
const STORES: &str =
    "etcd,metrics,postgres,redis,redis-cluster,redis-quorum,redis-sentinel,serde,zookeeper";

pub(crate) fn run() -> Done {
    run_line(&format!("rustup target add {WINDOWS} {MACOS}"))?;
    for platform in [WINDOWS, MACOS] {
        let library = "-p leasehold --no-default-features --features";
        run_line(&format!("cargo check --target {platform} {library} {STORES}"))?;
    }
    run_line(&format!("cargo check --target {MACOS} -p lock-cli --no-default-features"))
}

fn run_line(line: &str) -> Done {
    step::run(&mut command(line))
}
