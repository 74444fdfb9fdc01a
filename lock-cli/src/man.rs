//! `leasehold man`: the manual pages.

use std::io;

use clap_mangen::{Man, roff};
use leasehold::Connector;

use crate::args;
use crate::exit::{Exit, Failure};

pub(crate) fn run(args: &args::Man, connector: &Connector) -> Result<Exit, Failure> {
    let page = page(command(args.subcommand.as_deref(), connector)?)?;
    crate::terminal::print(String::from_utf8_lossy(&page).trim_end())?;
    Ok(Exit::Done)
}

fn command(subcommand: Option<&str>, connector: &Connector) -> Result<clap::Command, Failure> {
    let mut leasehold = args::command(connector);
    // Gives the subcommands their full names.
    leasehold.build();
    let Some(name) = subcommand else {
        return Ok(leasehold);
    };
    leasehold.find_subcommand(name).cloned().ok_or_else(|| {
        let text = format!("leasehold has no subcommand {name:?}: see `leasehold --help`");
        Failure::new(Exit::Usage, text)
    })
}

/// Writes section by section, since the text after the options has its own line breaks.
fn page(mut command: clap::Command) -> io::Result<Vec<u8>> {
    let usage = command.render_usage().to_string();
    let command = command.override_usage(usage.trim_start_matches("Usage: ").to_owned());
    let title = command.get_bin_name().unwrap_or("leasehold").replace(' ', "-");
    let notes = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
    let (has_subcommands, man) = (command.has_subcommands(), Man::new(command).title(title));
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if has_subcommands {
        man.render_subcommands_section(&mut page)?;
    }
    as_typed(&notes).to_writer(&mut page)?;
    Ok(page)
}

fn as_typed(notes: &str) -> roff::Roff {
    let mut section = roff::Roff::new();
    section.control("SH", ["NOTES"]).control("nf", []);
    for line in notes.lines() {
        section.text([roff::roman(line)]);
    }
    section.control("fi", []);
    section
}
