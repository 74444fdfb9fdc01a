//! Output: messages to stderr, answers to stdout, and colour only on terminals.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use anstream::adapter::strip_str;
use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use leasehold::core::Readable;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;

use crate::redaction::redacted;
use crate::stderr;

/// Style of a good state.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// Style of a bad state.
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
/// Style of a doubtful state.
pub(crate) const DOUBTFUL: Style = AnsiColor::Yellow.on_default();
/// Style of a heading.
pub(crate) const HEADING: Style = Style::new().bold();

/// Returns `text` in a style. The style is removed if the output is no terminal, or `NO_COLOR` is set.
pub(crate) fn styled(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Prints an answer and a newline.
pub(crate) fn print(text: impl Display) -> io::Result<()> {
    print_part(format_args!("{text}\n"))
}

/// Prints a part of an answer.
pub(crate) fn print_part(text: impl Display) -> io::Result<()> {
    let mut stdout = anstream::stdout().lock();
    write!(stdout, "{text}")?;
    stdout.flush()
}

/// The version of the scheme of the keys of JSON: see `docs/json.md`.
pub(crate) const VERSION: u8 = 1;

/// An object for programs, with the version.
#[derive(Serialize)]
pub(crate) struct Versioned<'a, T> {
    version: u8,
    #[serde(flatten)]
    value: &'a T,
}

impl<'a, T: Serialize> Versioned<'a, T> {
    pub(crate) fn of(value: &'a T) -> Self {
        Self { version: VERSION, value }
    }
}

/// Prints an answer as an object of JSON, in a line.
pub(crate) fn print_json(value: &impl Serialize) -> io::Result<()> {
    print(serde_json::to_string(&Versioned::of(value))?)
}

/// Prints a failure.
pub(crate) fn error(message: &str) {
    say(BAD, message);
}

/// Fails if the reader of our output has gone. Otherwise only a write would notice.
pub(crate) fn check_reader() -> io::Result<()> {
    let stdout = io::stdout();
    let mut polled = [PollFd::new(&stdout, PollFlags::empty())];
    poll(&mut polled, Some(&Timespec::default()))?;
    let gone = polled[0].revents().intersects(PollFlags::ERR | PollFlags::HUP);
    if gone { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
}

/// Prints a message that is no failure.
pub(crate) fn warning(message: &str) {
    say(DOUBTFUL, message);
}

fn say(style: Style, message: &str) {
    // Names are readable already; a server's text is not.
    let message = redacted(message);
    let message = Readable::again(&message);
    print_error(&format!("{} {message}\n", styled(style, "leasehold:")));
}

/// Prints text to stderr, without its styles if they are not wanted there.
pub(crate) fn print_error(text: &str) {
    let text = match AutoStream::choice(&io::stderr()) {
        ColorChoice::Never => strip_str(text).to_string(),
        _ => text.to_owned(),
    };
    stderr::write(text.into_bytes());
}

pub(crate) fn stderr_is_terminal() -> bool {
    io::stderr().is_terminal()
}
