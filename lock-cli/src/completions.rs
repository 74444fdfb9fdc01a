//! `leasehold completions`: the completions for a shell.

use leasehold::Connector;

use crate::args;
use crate::exit::{Exit, Failure};

pub(crate) fn run(args: &args::Completions, connector: &Connector) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::command(connector), "leasehold", &mut script);
    crate::terminal::print(String::from_utf8_lossy(&script).trim_end())?;
    Ok(Exit::Done)
}
