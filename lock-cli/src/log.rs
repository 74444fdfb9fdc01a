//! `-v`: what the library tells of itself, to stderr.

use std::io;

use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// The crates whose events are ours; those of the drivers below them may show what is secret.
const OURS: &[&str] = &[
    "leasehold",
    "lock_cli",
    "lock_core",
    "lock_etcd",
    "lock_file",
    "lock_postgres",
    "lock_redis",
    "lock_zookeeper",
];

/// Starts telling, as much as `verbose` times `-v` asks for.
pub(crate) fn start(verbose: u8) {
    let level = match verbose {
        0 => return,
        1 => Level::INFO,
        2 => Level::DEBUG,
        _ => Level::TRACE,
    };
    let ours = OURS.iter().map(|&target| (target, level));
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(anstream::AutoStream::choice(&io::stderr()) != anstream::ColorChoice::Never);
    let filter = ours.collect::<Targets>();
    tracing_subscriber::registry().with(lines).with(filter).init();
}
