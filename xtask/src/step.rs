//! One command of a task.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::process::{Command, ExitCode, ExitStatus, Stdio};

/// The reason why a task stopped, and the exit code for it.
#[derive(Debug)]
pub(crate) struct Failure {
    why: String,
    code: u8,
}

impl Failure {
    pub(crate) fn new(why: impl Into<String>) -> Self {
        let (why, code) = (why.into(), 1);
        Self { why, code }
    }

    /// Runs all parts of a task. The exit code is that of the first failure.
    pub(crate) fn all_of(parts: impl IntoIterator<Item = Done>) -> Done {
        let failures: Vec<_> = parts.into_iter().filter_map(Done::err).collect();
        let why =
            failures.iter().map(|failure| failure.why.as_str()).collect::<Vec<_>>().join("\n");
        failures.first().map_or(Ok(()), |first| Err(Self { why, code: first.code }))
    }

    pub(crate) fn report(self) -> ExitCode {
        eprintln!("xtask: {}", self.why);
        self.code.into()
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::new(error.to_string())
    }
}

pub(crate) type Done<T = ()> = Result<T, Failure>;

/// Creates a command from a line of words, without input: no task asks questions.
pub(crate) fn command(line: &str) -> Command {
    let mut words = line.split_whitespace();
    let mut command = program(words.next().unwrap_or_default());
    command.args(words);
    command
}

/// Creates a command without arguments, without input.
///
/// `cargo xtask` describes the package of xtask in its environment. Some build scripts watch these variables, and
/// would run again after each plain `cargo`, so the command does not get them.
pub(crate) fn program(path: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(path);
    command.stdin(Stdio::null());
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_MANIFEST_") || text.starts_with("CARGO_PKG_") {
            command.env_remove(&name);
        }
    }
    command
}

/// Prints a command and runs it. A failure has the command's own exit code.
pub(crate) fn run(command: &mut Command) -> Done {
    let line = announce(command);
    let status = command.status();
    judge(&line, status)
}

/// Like [`run`], but prints the command's output when it is over, so that commands can run side by side.
pub(crate) fn run_and_tell_at_the_end(command: &mut Command) -> Done {
    let line = announce(command);
    let output = command.output();
    if let Ok(output) = &output {
        let said = [&output.stderr[..], &output.stdout].concat();
        println!("+ {line} said:\n{}", String::from_utf8_lossy(&said));
    }
    judge(&line, output.map(|output| output.status))
}

fn announce(command: &Command) -> String {
    let line = shown(command);
    println!("+ {line}");
    line
}

fn judge(line: &str, status: io::Result<ExitStatus>) -> Done {
    let status = status.map_err(|error| Failure::new(format!("cannot run `{line}`: {error}")))?;
    match status.code() {
        Some(0) => Ok(()),
        code => Err(Failure {
            why: format!("`{line}` failed ({status})"),
            code: code.and_then(|code| code.try_into().ok()).unwrap_or(1),
        }),
    }
}

/// Returns true if a command can be run and succeeds; prints nothing.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    let silent = command.stdout(Stdio::null()).stderr(Stdio::null());
    silent.status().is_ok_and(|status| status.success())
}

fn shown(command: &Command) -> String {
    let variables = command
        .get_envs()
        .filter_map(|(name, value)| Some(format!("{}={}", name.display(), value?.display())));
    let words = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.display().to_string());
    variables.chain(words).collect::<Vec<_>>().join(" ")
}
