//! `leasehold completions`: what a shell needs to complete our words.

use clap::CommandFactory;

use crate::args::{self, Cli};
use crate::exit::{Exit, Failure};

pub(crate) fn run(args: &args::Completions) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "leasehold", &mut script);
    crate::terminal::print(String::from_utf8_lossy(&script).trim_end())?;
    Ok(Exit::Done)
}
