//! A child process of the bench, which plays a role in a workload.

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines, Stdin, stdin};
use tokio::process::{ChildStdin, ChildStdout, Command};

use crate::client::Result;

/// A child process. Dropping the value kills it.
pub(crate) struct Child {
    _process: tokio::process::Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Child {
    pub(crate) fn start(args: &[&str]) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn()?;
        let input = process.stdin.take().ok_or("the input is a pipe")?;
        let output = process.stdout.take().ok_or("the output is a pipe")?;
        Ok(Self { _process: process, input, lines: BufReader::new(output).lines() })
    }

    /// Returns the next line of its output.
    pub(crate) async fn line(&mut self) -> Result<String> {
        Ok(self.lines.next_line().await?.ok_or("the child ended too soon")?)
    }

    /// Lets the child continue.
    pub(crate) async fn go(&mut self) -> Result<()> {
        Ok(self.input.write_all(b"go\n").await?)
    }
}

/// In the child: prints a line, and waits for the permission to continue.
pub(crate) async fn say_and_wait(line: &str) -> Result<()> {
    println!("{line}");
    let mut input: Lines<BufReader<Stdin>> = BufReader::new(stdin()).lines();
    input.next_line().await?.ok_or("the parent ended")?;
    Ok(())
}
