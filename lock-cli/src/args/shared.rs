//! Options that several subcommands share.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use leasehold::Permits;

use super::public;
use crate::label::host_and_pid;

/// The parts of a subcommand's help.
pub(super) const LOCK: &str = "Lock";
pub(super) const ONCE: &str = "Run once";
pub(super) const WORK: &str = "Command";
pub(super) const OUTPUT: &str = "Output";

/// The options of a request for locks.
#[derive(Debug, Args)]
pub(crate) struct Request {
    /// Wait at most this long, such as 10s [default: for ever]
    #[arg(short, long, help_heading = LOCK, value_name = "SPAN", value_parser = humantime::parse_duration)]
    pub(crate) wait: Option<Duration>,
    /// Do not wait for the lock
    #[arg(short, long, help_heading = LOCK, conflicts_with = "wait")]
    pub(crate) no_wait: bool,
    /// Share the lock with others that use --shared, as readers do
    #[arg(long, help_heading = LOCK, conflicts_with = "limit")]
    pub(crate) shared: bool,
    /// Hold one of N permits, beside others with the same N
    #[arg(long, help_heading = LOCK, value_name = "N", value_parser = permits())]
    pub(crate) limit: Option<u16>,
    /// Take this many of the N permits, all or none [default: 1]
    #[arg(long, help_heading = LOCK, hide_short_help = true, value_name = "K", requires = "limit", conflicts_with = "shared", value_parser = permits())]
    pub(crate) take: Option<u16>,
}

/// The options of a hold: its TTL and its label.
#[derive(Debug, Args)]
pub(crate) struct Lease {
    /// Lifetime of the hold if nobody renews it
    #[arg(long, help_heading = LOCK, value_name = "SPAN", default_value = "30s", value_parser = humantime::parse_duration)]
    pub(crate) ttl: Duration,
    /// Text that others see as the holder [default: host:pid]
    #[arg(long, help_heading = LOCK, hide_short_help = true, value_name = "TEXT", value_parser = public)]
    pub(crate) label: Option<String>,
}

impl Lease {
    pub(crate) fn label(&self) -> String {
        self.label.clone().unwrap_or_else(host_and_pid)
    }
}

/// The file for metrics.
#[derive(Debug, Args)]
pub(crate) struct Metrics {
    /// Write metrics to this file every 10 s and at the end, for node_exporter's textfile collector
    #[arg(long = "metrics-file", help_heading = OUTPUT, hide_short_help = true, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

/// The work under a lock. It stands behind the name: the order of positional arguments is that of the fields.
#[derive(Debug, Args)]
pub(crate) struct Work {
    #[command(flatten)]
    pub(crate) lease: Lease,
    /// Time for the command to end after SIGTERM or a loss of the lock, before it is killed [default: 5s; `elect`: a
    /// third of the TTL if that is less]
    #[arg(long, help_heading = WORK, hide_short_help = true, value_name = "SPAN", value_parser = humantime::parse_duration)]
    pub(crate) grace: Option<Duration>,
    /// Count the lock as lost this long before others get in, so that the command has ended by then [default: none;
    /// `elect`: the longer of the grace and a third of the TTL, where the grace fits in half of the TTL]
    #[arg(long, help_heading = WORK, hide_short_help = true, value_name = "SPAN", value_parser = humantime::parse_duration)]
    pub(crate) margin: Option<Duration>,
    /// The command and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// Parses a number of permits.
fn permits() -> clap::builder::RangedI64ValueParser<u16> {
    clap::value_parser!(u16).range(1..=i64::from(Permits::MAX))
}
