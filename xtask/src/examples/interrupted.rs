//! Ends the flash sale in the middle by a signal.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use super::example::Example;
use crate::step::{self, Done, Failure};
use crate::workspace::target;

/// Signals that end a program in the foreground, and in a container.
const SIGNALS: [&str; 2] = ["-INT", "-TERM"];

/// Sends a signal once the sale has begun, and checks that no process and no file is left.
pub(super) fn run(sale: &Example) -> Done {
    SIGNALS.iter().try_for_each(|signal| interrupt(sale, signal))
}

fn interrupt(sale: &Example, signal: &str) -> Done {
    let folder = target().join("interrupted");
    fs::create_dir_all(&folder)?;
    let mut show = sale.command().env("TMPDIR", &folder).stdout(Stdio::piped()).spawn()?;
    let output = show.stdout.take().ok_or_else(|| Failure::new("the sale has no output"))?;
    let mut lines = BufReader::new(output).lines();
    // The first act is over, and the workers of the second are running.
    for line in lines.by_ref() {
        if line?.starts_with("no lock") {
            break;
        }
    }
    step::run(step::command("kill").arg(signal).arg(show.id().to_string()))?;
    // Reads to the end of the output, which comes with the end of the main process: the workers share only its
    // standard error.
    lines.for_each(drop);
    let status = show.wait()?;
    let left = fs::read_dir(&folder)?.count();
    fs::remove_dir_all(&folder)?;
    match (status.code(), left) {
        (Some(1), 0) => Ok(()),
        (code, left) => Err(Failure::new(format!(
            "the sale ended with {code:?} on kill {signal}, and left {left} files behind"
        ))),
    }
}
