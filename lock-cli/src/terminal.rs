//! Prints: our words to stderr, answers to stdout, colour to terminals alone.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use anstyle::{AnsiColor, Style};
use leasehold::core::Readable;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::redaction::redacted;

/// Of something that is as it should be.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// Of something that is not.
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
/// Of something to look at.
pub(crate) const DOUBTFUL: Style = AnsiColor::Yellow.on_default();
/// Of a heading.
pub(crate) const HEADING: Style = Style::new().bold();

/// `text` in a style, which is taken off again where the output is no terminal or `NO_COLOR` is set.
pub(crate) fn styled(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Prints an answer and a newline.
pub(crate) fn print(text: impl Display) -> io::Result<()> {
    let mut stdout = anstream::stdout().lock();
    writeln!(stdout, "{text}")?;
    stdout.flush()
}

/// Prints an answer as JSON.
pub(crate) fn print_json(value: &impl serde::Serialize) -> io::Result<()> {
    print(serde_json::to_string(value)?)
}

/// Says what went wrong. If it cannot be written, there is nowhere else to say it.
pub(crate) fn error(message: &str) {
    say(BAD, message);
}

/// Fails if the reader of our output has gone away, which one would else notice only by writing.
pub(crate) fn check_reader() -> io::Result<()> {
    let stdout = io::stdout();
    let mut polled = [PollFd::new(&stdout, PollFlags::empty())];
    poll(&mut polled, Some(&Timespec::default()))?;
    let gone = polled[0].revents().intersects(PollFlags::ERR | PollFlags::HUP);
    if gone { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
}

/// Says something that is worth knowing, but is no failure.
pub(crate) fn warning(message: &str) {
    say(DOUBTFUL, message);
}

fn say(style: Style, message: &str) {
    // Names are readable already; what a server says is not.
    let message = redacted(message);
    let message = Readable::again(&message);
    let _ = writeln!(anstream::stderr(), "{} {message}", styled(style, "leasehold:"));
}

pub(crate) fn stderr_is_terminal() -> bool {
    io::stderr().is_terminal()
}
