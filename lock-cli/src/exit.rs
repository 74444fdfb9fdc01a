//! Exit codes of the command, and its error messages.

use std::env;
use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use leasehold::core::Readable;
use leasehold::{LockError, LockName};

use crate::redaction::without_urls;
use crate::terminal;

/// Reason why the command ended. The numbers are those of sysexits.h if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All went well.
    Done,
    /// `doctor --strict` found a danger to locks, `inspect --exit-code` found a free lock, or `release` found no such
    /// hold.
    No,
    /// The command line cannot be understood.
    Usage,
    /// The backend cannot be reached, or refuses.
    Unavailable,
    /// The operating system refused one of our calls.
    System,
    /// The command of a run once exited with 0, but the run may not be recorded.
    Unrecorded,
    /// Our output could not be written.
    Output,
    /// The lock was not acquired.
    NotAcquired,
    /// The lock was lost while the command ran.
    Lost,
    /// `run --strict` could not release the lock.
    Unreleased,
    /// The command could not be executed.
    NotExecutable,
    /// The command was not found.
    NotFound,
    /// A signal ended us, or the command.
    Signal(i32),
    /// Exit code of the command.
    Command(u8),
}

impl Exit {
    pub(crate) fn code(self) -> ExitCode {
        ExitCode::from(self.number())
    }

    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::No => 1,
            Self::Usage => 64,
            Self::Unavailable => 69,
            Self::System => 71,
            Self::Unrecorded => 73,
            Self::Output => 74,
            Self::NotAcquired => 75,
            Self::Lost => 76,
            Self::Unreleased => 77,
            Self::NotExecutable => 126,
            Self::NotFound => 127,
            Self::Signal(number) => 128_u8.saturating_add(number.try_into().unwrap_or(127)),
            Self::Command(code) => code,
        }
    }
}

/// An end with a message.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    message: String,
    is_transient: bool,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), is_transient: false }
    }

    /// Returns true if the failure may be temporary, such as a server that is away.
    pub(crate) fn is_transient(&self) -> bool {
        self.is_transient
    }

    /// The operating system refused the call described by `doing`.
    pub(crate) fn system(doing: &str, error: &dyn Error) -> Self {
        Self::new(Exit::System, format!("{doing}: {}", chain(error)))
    }

    /// The lock was lost while the command ran.
    pub(crate) fn lost(name: &LockName, how: &str) -> Self {
        Self::new(Exit::Lost, format!("lock \"{name}\" was lost while the command ran: {how}"))
    }

    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Prints the failure in one line, and returns the exit code.
    pub(crate) fn tell(self) -> Exit {
        if !self.message.is_empty() {
            terminal::error(&self.message);
        }
        self.exit
    }
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Self {
        // C14: a busy lock, a lost lock and a failed store have different codes.
        let exit = match &error {
            _ if error.is_busy() => Exit::NotAcquired,
            LockError::Timeout { .. } => Exit::Unavailable,
            LockError::Lost { .. } | LockError::Closed { .. } => Exit::Lost,
            // An unreachable fence is an unreachable store.
            LockError::Backend { .. }
            | LockError::Incomplete { .. }
            | LockError::Unfenced { .. } => Exit::Unavailable,
            // An unreachable store keeps the command from running. Here the command ran.
            LockError::Unrecorded { .. } => Exit::Unrecorded,
            // The store has something else under the name, so it refuses the lock.
            LockError::NotALock { .. } => Exit::Unavailable,
            // An invalid name, label, TTL, token, lease, number of permits or URL, or a lease that is already under a
            // guard. Also another number of permits than that of others, and an ability that the backend lacks (C33):
            // a changed request may help, and a repeated one does not.
            _ => Exit::Usage,
        };
        Self { is_transient: error.is_transient(), ..Self::new(exit, error.to_string()) }
    }
}

/// Output that could not be written. If the reader of a pipe has gone, no message is needed.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => {
                Self::new(Exit::Signal(rustix::process::Signal::PIPE.as_raw()), "")
            }
            _ => Self::new(Exit::Output, format!("cannot write the output: {error}")),
        }
    }
}

/// Returns an error and its sources in one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text += &format!(": {error}");
        source = error.source();
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Help and version are no errors; all other errors of the parser are wrong usage.
pub(crate) fn usage(error: clap::Error) -> Result<Exit, Failure> {
    let error = without_misleading_tips(error);
    let text = error.render().ansi().to_string();
    let readable = |text: &str| Readable::again(text).keeping(&LINES_AND_COLOURS).to_string();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            write!(anstream::stdout(), "{}", readable(&text))?;
            return Ok(Exit::Done);
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            terminal::print_error(&readable(&text));
        }
        // C32: the text repeats the typed words, and one may be a URL in the wrong place. It is found as it was typed.
        _ => {
            let text = readable(&without_urls(&text, typed()));
            let hint = if lacks_dashes() { NO_DASHES } else { meant(&error).unwrap_or_default() };
            terminal::print_error(&format!("{text}{hint}"));
        }
    }
    Ok(Exit::Usage)
}

/// Removes the tip to pass an option as a value, which would become a name or the command. Also removes suggestions
/// that are not close to the typed word.
fn without_misleading_tips(mut error: clap::Error) -> clap::Error {
    error.remove(ContextKind::Suggested);
    for (typed, tip) in [
        (ContextKind::InvalidArg, ContextKind::SuggestedArg),
        (ContextKind::InvalidSubcommand, ContextKind::SuggestedSubcommand),
    ] {
        let near = match (error.get(typed), error.get(tip)) {
            (Some(ContextValue::String(typed)), Some(ContextValue::String(tip))) => {
                is_near(typed, tip)
            }
            (Some(ContextValue::String(typed)), Some(ContextValue::Strings(tips))) => {
                tips.iter().any(|tip| is_near(typed, tip))
            }
            _ => true,
        };
        if !near {
            error.remove(tip);
            // The usage contains that word too.
            error.remove(ContextKind::Usage);
        }
    }
    error
}

/// Returns true if, apart from dashes, at most one letter differs, was added or is missing.
fn is_near(typed: &str, meant: &str) -> bool {
    let [typed, meant] = [typed, meant].map(|word| word.replace('-', ""));
    let start = typed.chars().zip(meant.chars()).take_while(|(one, other)| one == other).count();
    let ends = typed.chars().rev().zip(meant.chars().rev());
    let end = ends.take_while(|(one, other)| one == other).count();
    typed.chars().count().max(meant.chars().count()) <= start + end + 1
}

/// Characters of the parser's own text that are no letters.
const LINES_AND_COLOURS: [char; 2] = ['\n', '\u{1b}'];

const NO_DASHES: &str =
    "\nThe command stands after two dashes: leasehold run [OPTIONS] NAME -- CMD [ARG...]\n";

/// Returns a tip for a verb that other programs have, and this one has under another name.
fn meant(error: &clap::Error) -> Option<&'static str> {
    let Some(ContextValue::String(verb)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    Some(match &**verb {
        "status" => {
            "\n  tip: `leasehold inspect NAME` shows a lock, `leasehold ps` all that are held\n"
        }
        "who" => "\n  tip: `leasehold inspect NAME` shows who holds a lock\n",
        "lock" => "\n  tip: `leasehold run NAME -- CMD` holds a lock while CMD runs\n",
        "unlock" => "\n  tip: `leasehold release` gives back what `leasehold acquire` holds\n",
        "version" => "\n  tip: `leasehold --version` prints the version\n",
        _ => return None,
    })
}

/// Returns true if `run` was typed without the `--` that it needs.
fn lacks_dashes() -> bool {
    typed().any(|word| word == "run") && !typed().any(|word| word == "--")
}

fn typed() -> impl Iterator<Item = String> {
    env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use leasehold::FenceError;

    use super::*;

    #[test]
    fn each_exit_code_is_in_the_manual() {
        const MANUAL: &str = include_str!("../../docs/cli.md");
        let rows = MANUAL.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" |"));
        let first_cells: Vec<_> = rows.flat_map(|(cell, _)| cell.split(", ")).collect();
        for exit in [
            Exit::Usage,
            Exit::Unavailable,
            Exit::System,
            Exit::Unrecorded,
            Exit::Output,
            Exit::NotAcquired,
            Exit::Lost,
            Exit::Unreleased,
            Exit::NotExecutable,
            Exit::NotFound,
        ] {
            assert!(first_cells.contains(&&*exit.number().to_string()), "{exit:?}");
        }
    }

    #[test]
    fn c14_an_error_has_the_exit_code_of_its_kind() {
        let name = LockName::new("a").expect("a name");
        let token = "7".parse().expect("a token");
        let unfenced = LockError::Unfenced {
            name: name.clone(),
            source: FenceError::Stale { token, seen: token },
        };
        let invalid = LockName::new("").expect_err("it is empty");
        for (error, exit) in [
            (unfenced, Exit::Unavailable),
            (LockError::Conflict { name: name.clone(), asked: 5, held: 3 }, Exit::Usage),
            (
                LockError::Unsupported { name: name.clone(), backend: "b", what: "share" },
                Exit::Usage,
            ),
            (LockError::AlreadyAttached { name }, Exit::Usage),
            (invalid.into(), Exit::Usage),
        ] {
            assert_eq!(Failure::from(error).exit, exit);
        }
    }
}
