//! `leasehold man`: the manual pages.

use clap::CommandFactory;

use crate::args::{self, Cli};
use crate::exit::{Exit, Failure};

pub(crate) fn run(args: &args::Man) -> Result<Exit, Failure> {
    let mut page = Vec::new();
    let command = command(args.subcommand.as_deref())?;
    let title = command.get_bin_name().unwrap_or("leasehold").replace(' ', "-");
    clap_mangen::Man::new(command).title(title).render(&mut page)?;
    crate::terminal::print(String::from_utf8_lossy(&page).trim_end())?;
    Ok(Exit::Done)
}

fn command(subcommand: Option<&str>) -> Result<clap::Command, Failure> {
    let mut leasehold = Cli::command();
    // Tells the subcommands what they are called in full.
    leasehold.build();
    let Some(name) = subcommand else {
        return Ok(leasehold);
    };
    leasehold.find_subcommand(name).cloned().ok_or_else(|| {
        let text = format!("leasehold has no subcommand {name:?}: see `leasehold --help`");
        Failure::new(Exit::Usage, text)
    })
}
