//! Arguments of the command, and its help.

mod examples;
mod shared;

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::Styles;
use clap::builder::styling::AnsiColor;
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use leasehold::Connector;

use self::examples::*;
use self::shared::{LOCK, ONCE, OUTPUT, WORK};
pub(crate) use self::shared::{Lease, Metrics, Request, Work};
use crate::redaction::holds_password;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Yellow.on_default().bold())
    .usage(AnsiColor::Yellow.on_default().bold())
    .literal(AnsiColor::Green.on_default())
    .placeholder(AnsiColor::Cyan.on_default());

/// Distributed locks with fencing tokens, from the shell.
#[derive(Debug, Parser)]
#[command(name = "leasehold", version, styles = STYLES)]
#[command(arg_required_else_help = true, subcommand_required = true, max_term_width = 100)]
pub(crate) struct Cli {
    // The variable is read where the URL is used: here it would show in each usage line.
    /// URL of the locks, such as redis://HOST [env: LEASEHOLD_URL]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Read the URL from this file, such as one that only its user may read
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        conflicts_with = "url",
        hide_short_help = true
    )]
    pub(crate) url_file: Option<PathBuf>,
    /// Print events on stderr; twice for more
    #[arg(short, long, global = true, action = clap::ArgAction::Count, hide_short_help = true)]
    pub(crate) verbose: u8,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command while holding a lock
    #[command(after_long_help = RUN_EXAMPLES)]
    Run(Run),
    /// Hold a lock for the program that started this, or for a process
    #[command(after_long_help = HOLD_EXAMPLES)]
    Hold(Hold),
    /// Acquire a lock for later commands; `release` gives it back
    #[command(after_long_help = ACQUIRE_EXAMPLES)]
    Acquire(Acquire),
    /// Run a command while its host leads, again and again
    #[command(after_long_help = ELECT_EXAMPLES)]
    Elect(Elect),
    /// Show who leads
    #[command(after_long_help = LEADER_EXAMPLES)]
    Leader(Leader),
    /// Show who holds a lock
    #[command(after_long_help = INSPECT_EXAMPLES)]
    Inspect(Inspect),
    /// List the locks that are held
    #[command(visible_alias = "list", after_long_help = PS_EXAMPLES)]
    Ps(Ps),
    /// Print a line whenever a lock changes, until interrupted
    #[command(after_long_help = WATCH_EXAMPLES)]
    Watch(Watch),
    /// List the runs that --once has recorded, or forget one
    #[command(after_long_help = RUNS_EXAMPLES)]
    Runs(Runs),
    /// Give back a lock, or end another's hold
    #[command(visible_alias = "evict", after_long_help = RELEASE_EXAMPLES)]
    Release(Release),
    /// Examine the server for dangers to locks
    #[command(after_long_help = DOCTOR_EXAMPLES)]
    Doctor(Doctor),
    /// Print the script that prepares a store, for your own migrations
    #[cfg(feature = "postgres")]
    #[command(after_long_help = SCHEMA_EXAMPLES)]
    Schema(Schema),
    /// Print completions for a shell
    Completions(Completions),
    /// Print the manual page
    Man(Man),
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) request: Request,
    /// Run once for this key, such as a day; wait only with --wait
    #[arg(long, help_heading = ONCE, value_name = "KEY", conflicts_with_all = ["shared", "limit", "take"], value_parser = public)]
    pub(crate) once: Option<String>,
    /// Lifetime of the record that the command ran for the key of --once and exited with 0
    #[arg(long, help_heading = ONCE, hide_short_help = true, value_name = "SPAN", default_value = "7d", requires = "once", value_parser = humantime::parse_duration)]
    pub(crate) remember: Duration,
    /// Keep others out for this long from the start, even after the command has ended; do not wait for a busy lock
    #[arg(long, help_heading = ONCE, hide_short_help = true, value_name = "SPAN", conflicts_with_all = ["shared", "limit", "take"], value_parser = humantime::parse_duration)]
    pub(crate) at_least: Option<Duration>,
    /// Stop renewing after this long, so that a command that hangs loses the lock one TTL later
    #[arg(long, help_heading = WORK, hide_short_help = true, value_name = "SPAN", value_parser = humantime::parse_duration)]
    pub(crate) at_most: Option<Duration>,
    /// Exit with N in place of 75 if the lock was not acquired; 0 does not tell a run that was skipped from one that ended well
    #[arg(short = 'E', long, help_heading = OUTPUT, hide_short_help = true, value_name = "N")]
    pub(crate) busy_exit: Option<u8>,
    /// Exit with 77 if the command exited with 0 and the lock could not be given back
    #[arg(long, help_heading = OUTPUT, hide_short_help = true)]
    pub(crate) strict: bool,
    /// Print only errors; nothing if the lock was not acquired
    #[arg(short, long, help_heading = OUTPUT)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) metrics: Metrics,
    /// The lock, or several locks that the command runs under
    #[arg(required = true, value_name = "NAME", value_parser = public)]
    pub(crate) names: Vec<String>,
    #[command(flatten)]
    pub(crate) work: Work,
}

#[derive(Debug, Args)]
pub(crate) struct Hold {
    #[command(flatten)]
    pub(crate) request: Request,
    #[command(flatten)]
    pub(crate) lease: Lease,
    /// Hold until this process has ended, whatever becomes of the input
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) pid: Option<i32>,
    /// Hold locks as lines of JSON on the input ask for them
    #[arg(long, conflicts_with_all = ["names", "shared", "limit", "take"])]
    pub(crate) json_lines: bool,
    #[command(flatten)]
    pub(crate) metrics: Metrics,
    /// The lock, or several locks, all or none
    #[arg(required_unless_present = "json_lines", value_name = "NAME", value_parser = public)]
    pub(crate) names: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Acquire {
    #[command(flatten)]
    pub(crate) request: Request,
    /// Hold the lock for this long; it is not renewed
    #[arg(long = "for", value_name = "SPAN", value_parser = humantime::parse_duration)]
    pub(crate) span: Duration,
    /// Write the proof of the hold to this file, for `release --lease`
    #[arg(long, value_name = "FILE")]
    pub(crate) lease: PathBuf,
    /// Text that others see as the holder [default: host:pid]
    #[arg(long, help_heading = LOCK, hide_short_help = true, value_name = "TEXT", value_parser = public)]
    pub(crate) label: Option<String>,
    /// The lock
    #[arg(value_parser = public)]
    pub(crate) name: String,
}

#[derive(Debug, Args)]
pub(crate) struct Elect {
    /// A file that exists while the command leads, for a readiness probe
    #[arg(long, value_name = "FILE")]
    pub(crate) ready_file: Option<PathBuf>,
    /// Run this shell command at each change of the role
    #[arg(long, value_name = "CMD")]
    pub(crate) on_change: Option<OsString>,
    /// Print only errors
    #[arg(short, long, help_heading = OUTPUT)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) metrics: Metrics,
    /// The election
    #[arg(value_parser = public)]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) work: Work,
}

#[derive(Debug, Args)]
pub(crate) struct Leader {
    /// The election
    #[arg(value_parser = public)]
    pub(crate) name: String,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print a line for each change, until interrupted
    #[arg(short, long)]
    pub(crate) follow: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Inspect {
    /// The lock
    #[arg(value_parser = public)]
    pub(crate) name: String,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Exit with 1 if nobody holds the lock
    #[arg(long)]
    pub(crate) exit_code: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Ps {
    /// Only locks whose names start with this
    #[arg(default_value = "", hide_default_value = true, value_parser = public)]
    pub(crate) prefix: String,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// List this many at most
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) limit: usize,
    /// List them again at each change, until interrupted
    #[arg(short, long)]
    pub(crate) follow: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Watch {
    /// The lock
    #[arg(value_parser = public)]
    pub(crate) name: String,
    /// Print a JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Runs {
    /// The lock
    #[arg(value_parser = public)]
    pub(crate) name: String,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Forget the run for this key, so that it may run again; exit with 1 if none is recorded
    #[arg(long, value_name = "KEY", conflicts_with = "json", value_parser = public)]
    pub(crate) forget: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Release {
    /// Give back the hold that `acquire` wrote to this file, and remove the file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["force", "owner", "name"])]
    pub(crate) lease: Option<PathBuf>,
    /// End the hold although it is not ours; exit with 1 if there is none
    #[arg(long)]
    pub(crate) force: bool,
    /// End the hold of this owner alone, by the 8 digits that `inspect` shows
    #[arg(long, value_name = "DIGITS", value_parser = owner_digits)]
    pub(crate) owner: Option<String>,
    /// The lock
    #[arg(required_unless_present = "lease", default_value = "", hide_default_value = true, value_parser = public)]
    pub(crate) name: String,
}

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Also check this lock for obstacles
    #[arg(value_parser = public)]
    pub(crate) name: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Exit with 1 if anything endangers locks
    #[arg(long)]
    pub(crate) strict: bool,
}

#[cfg(feature = "postgres")]
#[derive(Debug, Args)]
pub(crate) struct Schema {
    /// The store
    pub(crate) store: SchemaOf,
    /// The schema in which locks live, as `lock_schema` in the URL
    #[arg(long, value_name = "NAME", default_value = "leasehold")]
    pub(crate) schema: String,
    /// The table in which locks live, as `lock_table` in the URL
    #[arg(long, value_name = "NAME", default_value = "locks")]
    pub(crate) table: String,
}

/// The stores that have a schema.
#[cfg(feature = "postgres")]
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum SchemaOf {
    /// As SQL
    Postgres,
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: Shell,
}

#[derive(Debug, Args)]
pub(crate) struct Man {
    /// The subcommand whose page to print; without it, the page of leasehold itself
    pub(crate) subcommand: Option<String>,
}

/// Returns the command line. Its help names the schemes that can be connected to.
pub(crate) fn command(connector: &Connector) -> clap::Command {
    // Locks in memory exclude no other process.
    let schemes = connector.schemes().filter(|scheme| *scheme != "memory");
    let schemes: Vec<String> = schemes.map(|scheme| format!("{scheme}:")).collect();
    let here = format!("  this build supports: {}", schemes.join(", "));
    let version = clap::Arg::new("version").short('V').long("version").help("Print version");
    let version = version.action(clap::ArgAction::Version).hide_short_help(true);
    let command = Cli::command().disable_version_flag(true).arg(version);
    command.after_long_help(format!("{EXAMPLES}\n{here}\n\n{EXIT_CODES}"))
}

/// Options whose variables are no mistake: LEASEHOLD_URL is read, and images set LEASEHOLD_VERSION.
const INNOCENT: [&str; 3] = ["url", "help", "version"];

/// Refuses a variable that is named like an option, such as LEASEHOLD_TTL: no code reads it, so its value would have
/// no effect.
pub(crate) fn refuse_variables_of_options(command: &mut clap::Command) -> Result<(), clap::Error> {
    let variable = |option: &str| format!("LEASEHOLD_{}", option.replace('-', "_").to_uppercase());
    let options = command.get_subcommands().flat_map(clap::Command::get_arguments);
    let mut options =
        options.filter_map(clap::Arg::get_long).filter(|option| !INNOCENT.contains(option));
    let found = options.find(|option| env::var_os(variable(option)).is_some()).map(str::to_owned);
    drop(options);
    let Some(option) = found else { return Ok(()) };
    let text = format!("{} is not supported: unset it, and use --{option}", variable(&option));
    Err(command.error(ErrorKind::ArgumentConflict, text))
}

/// Parses the digits of an owner that `inspect` shows.
fn owner_digits(word: &str) -> Result<String, &'static str> {
    if word.len() != 8 || !word.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err("an owner is 8 hex digits, as `leasehold inspect` shows them");
    }
    Ok(word.to_ascii_lowercase())
}

/// Parses a word that every observer of locks sees.
pub(crate) fn public(word: &str) -> Result<String, &'static str> {
    if holds_password(word) {
        return Err("names and labels are public, and this looks like a URL with a password: \
                    give the URL of the locks by --url");
    }
    Ok(word.to_owned())
}
