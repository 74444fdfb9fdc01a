//! The `leasehold` command as a library, so that it can be built with further backends.
//!
//! Authors of a backend build the command with it in a few lines:
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! use leasehold::{Connector, MemoryBackend};
//!
//! fn main() -> ExitCode {
//!     lock_cli::main(Connector::new().scheme("toy", |_url| async { Ok(MemoryBackend::new()) }))
//! }
//! ```
//!
//! The command then accepts `--url toy:` beside the URLs of the compiled-in backends, and its help names the scheme.
//! `docs/cli.md` of the repository describes the command.

mod acquire;
mod args;
mod completions;
mod doctor;
mod elect;
mod event;
mod exit;
mod follow;
mod hold;
mod hook;
mod inspect;
mod label;
mod leader;
mod lease_file;
mod lock_view;
mod log;
mod man;
mod margin;
mod metrics;
mod outage;
mod ps;
mod readiness;
mod redaction;
mod release;
mod request;
mod run;
mod runs;
#[cfg(feature = "postgres")]
mod schema;
mod stderr;
mod terminal;
mod url;
mod url_file;
mod waiting;
mod watch;

use std::env;
use std::process::ExitCode;
use std::time::Duration;

use clap::FromArgMatches;
use leasehold::Connector;

use crate::args::{Cli, Command};
use crate::exit::{Exit, Failure};
use crate::url::StoreUrl;

/// The whole command: reads the arguments of this process, carries them out on the locks that `connector` opens, and
/// returns the exit code.
///
/// A program's `main` must do nothing else. To run a command under a lock, it starts this program once more, which
/// then becomes the command: other steps of `main` would be done twice. It starts its own runtime, and writes to the
/// standard output and error.
pub fn main(connector: Connector) -> ExitCode {
    if let Some(exit) = run::trampoline::entered() {
        return exit.code();
    }
    let ended = match parse(&connector) {
        Ok(cli) => start(&cli, &connector),
        Err(error) => exit::usage(error),
    };
    let exit = ended.unwrap_or_else(|failure| failure.tell());
    stderr::finish();
    exit.code()
}

fn parse(connector: &Connector) -> Result<Cli, clap::Error> {
    let mut command = args::command(connector);
    let matches = command.try_get_matches_from_mut(env::args_os())?;
    args::refuse_variables_of_options(&mut command)?;
    Cli::from_arg_matches(&matches)
}

/// Runs a subcommand on this thread. The system ends the command under a lock together with the **thread** that
/// started it, so a lasting thread must start it.
fn start(cli: &Cli, connector: &Connector) -> Result<Exit, Failure> {
    log::start(cli.verbose);
    let mut builder = tokio::runtime::Builder::new_current_thread();
    // Locks in files need a thread to work on. It is kept, because the system may refuse us another one when a lock
    // must be renewed.
    builder.enable_all().thread_keep_alive(Duration::MAX);
    let runtime = builder.build().map_err(|error| Failure::system("cannot start", &error))?;
    let ended = runtime.block_on(carry_out(cli, connector));
    // This shutdown does not wait for a blocked thread, such as one that reads a file of a dead disk.
    runtime.shutdown_background();
    ended
}

async fn carry_out(cli: &Cli, connector: &Connector) -> Result<Exit, Failure> {
    let store = || StoreUrl::new(cli, connector);
    match &cli.command {
        Command::Run(args) => metrics::written(&args.metrics, run::run(args, &store()?)).await,
        Command::Hold(args) => metrics::written(&args.metrics, hold::run(args, &store()?)).await,
        Command::Acquire(args) => acquire::run(args, &store()?).await,
        Command::Elect(args) => metrics::written(&args.metrics, elect::run(args, &store()?)).await,
        Command::Leader(args) => leader::run(args, &store()?).await,
        Command::Inspect(args) => inspect::run(args, &store()?).await,
        Command::Ps(args) => ps::run(args, &store()?).await,
        Command::Watch(args) => watch::run(args, &store()?).await,
        Command::Runs(args) => runs::run(args, &store()?).await,
        Command::Release(args) => release::run(args, &store()?).await,
        Command::Doctor(args) => doctor::run(args, &store()?).await,
        #[cfg(feature = "postgres")]
        Command::Schema(args) => schema::run(args),
        Command::Completions(args) => completions::run(args, connector),
        Command::Man(args) => man::run(args, connector),
    }
}
