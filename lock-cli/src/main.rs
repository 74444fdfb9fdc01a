//! The `leasehold` command.

mod args;
mod bench;
mod completions;
mod doctor;
mod exit;
mod inspect;
mod label;
mod lock_view;
mod log;
mod man;
mod ps;
mod redaction;
mod release;
mod run;
#[cfg(feature = "postgres")]
mod schema;
mod terminal;
mod url;
mod visible;
mod watch;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use crate::args::{Cli, Command};
use crate::exit::{Exit, Failure};

fn main() -> ExitCode {
    if let Some(exit) = run::trampoline::entered() {
        return exit.code();
    }
    let ended = match Cli::try_parse() {
        Ok(cli) => start(&cli),
        Err(error) => exit::usage(&error),
    };
    ended.unwrap_or_else(|failure| failure.tell()).code()
}

/// Runs a subcommand on this thread. The system ends a command that runs under a lock together with
/// the **thread** that started it, so it has to be started by the thread that lasts.
fn start(cli: &Cli) -> Result<Exit, Failure> {
    log::start(cli.verbose);
    let mut builder = tokio::runtime::Builder::new_current_thread();
    // Locks in files need a thread to work on. It is kept, because the system may have no other for us
    // when a lock is to be renewed.
    builder.enable_all().thread_keep_alive(Duration::MAX);
    let runtime = builder.build().map_err(|error| Failure::system("cannot start", &error))?;
    let ended = runtime.block_on(carry_out(cli));
    // Does not wait for a thread that still blocks, such as on a file of a dead disk.
    runtime.shutdown_background();
    ended
}

async fn carry_out(cli: &Cli) -> Result<Exit, Failure> {
    let url = cli.url.as_deref();
    match &cli.command {
        Command::Run(args) => run::run(args, url).await,
        Command::Inspect(args) => inspect::run(args, url).await,
        Command::Ps(args) => ps::run(args, url).await,
        Command::Watch(args) => watch::run(args, url).await,
        Command::Release(args) => release::run(args, url).await,
        Command::Doctor(args) => doctor::run(args, url).await,
        Command::Bench(args) => bench::run(args, url).await,
        #[cfg(feature = "postgres")]
        Command::Schema(args) => schema::run(args),
        Command::Completions(args) => completions::run(args),
        Command::Man(args) => man::run(args),
    }
}
