//! `-v`: the events of the library, to stderr.

use std::io;

use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::stderr;

/// The crates whose events are shown; those of the drivers below them may show secrets.
const OURS: &[&str] = &[
    "leasehold", "lock_cli", "lock_core", "lock_etcd", "lock_file", "lock_postgres", "lock_redis",
    "lock_zookeeper",
];

/// Starts to show events, by the number of `-v` in `verbose`.
pub(crate) fn start(verbose: u8) {
    let level = match verbose {
        0 => return,
        1 => Level::INFO,
        2 => Level::DEBUG,
        _ => Level::TRACE,
    };
    let ours = OURS.iter().map(|&target| (target, level));
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(stderr::line)
        .with_ansi(anstream::AutoStream::choice(&io::stderr()) != anstream::ColorChoice::Never);
    let filter = ours.collect::<Targets>();
    tracing_subscriber::registry().with(lines).with(filter).init();
}
