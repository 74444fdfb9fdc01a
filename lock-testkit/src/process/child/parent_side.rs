//! The test's side of a child.

use std::env;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::{MARK, ROLE};
use crate::process::Tether;
use crate::process::signal;

/// Longest wait for a line of a child, or for its end. No step of a child takes as long.
const LINE_TIMEOUT: Duration = Duration::from_secs(180);

/// A child process with a role. It is killed when this value is dropped. It is also killed, even if it is stopped,
/// when the test process ends in any other way.
#[derive(Debug)]
pub struct Child {
    role: String,
    pid: u32,
    // The order of the fields is the order of the drops. The tether is dropped before the process is reaped. Both are
    // dropped before the pipe, so that the child never notices that its output is not read.
    tether: Option<Tether>,
    process: tokio::process::Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

/// Starts this test binary again, to play `role` with these variables in its environment.
///
/// # Panics
/// If it cannot be started, or outside of a Tokio runtime.
pub fn spawn(role: &str, variables: &[(&str, &str)]) -> Child {
    let binary = env::current_exe().expect("a running binary has a path");
    let mut process = Command::new(binary)
        .args(["--exact", "child_role", "--nocapture", "--quiet"])
        .env(ROLE, role)
        .envs(variables.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap_or_else(|error| panic!("cannot start the child {role}: {error}"));
    let pid = process.id().expect("the child has not been reaped");
    let input = process.stdin.take().expect("the input is a pipe");
    let output = process.stdout.take().expect("the output is a pipe");
    Child {
        role: role.to_owned(),
        pid,
        tether: Some(Tether::to(pid)),
        process,
        input,
        lines: BufReader::new(output).lines(),
    }
}

impl Child {
    /// The process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns the next line that the child [says](super::say).
    ///
    /// # Panics
    /// If none comes within 30 seconds, or the child ends first.
    ///
    /// # Cancel safety
    /// If the future is dropped no line is lost.
    pub async fn line(&mut self) -> String {
        match timeout(LINE_TIMEOUT, self.next_marked()).await {
            Ok(Some(line)) => line,
            Ok(None) => panic!("the child {} ended before it said a line", self.role),
            Err(_) => panic!("the child {} said no line within {LINE_TIMEOUT:?}", self.role),
        }
    }

    /// Sends the child a line, which it [hears](super::hear).
    ///
    /// # Panics
    /// If the child has ended.
    pub async fn tell(&mut self, line: &str) {
        let sent = self.input.write_all(format!("{line}\n").as_bytes()).await;
        sent.unwrap_or_else(|error| panic!("cannot tell the child {}: {error}", self.role));
    }

    /// Stops the child (SIGSTOP), as a long pause of its machine would.
    pub fn stop(&self) {
        signal::stop(self.pid);
    }

    /// Lets a stopped child go on (SIGCONT).
    pub fn cont(&self) {
        signal::cont(self.pid);
    }

    /// Kills the child (SIGKILL), stopped or not; it is gone when this returns.
    pub async fn kill(&mut self) {
        signal::kill(self.pid);
        self.ended().await;
    }

    /// Waits until the child has ended by itself.
    ///
    /// # Panics
    /// If it has not within 30 seconds.
    pub async fn ended(&mut self) -> ExitStatus {
        // The output ends with the process, which is not reaped before the tether is gone.
        let silent = async { while self.next_marked().await.is_some() {} };
        let ended = timeout(LINE_TIMEOUT, silent).await;
        assert!(ended.is_ok(), "the child {} goes on and on", self.role);
        self.tether = None;
        self.process.wait().await.expect("a child can be waited for")
    }

    async fn next_marked(&mut self) -> Option<String> {
        while let Ok(Some(line)) = self.lines.next_line().await {
            if let Some(said) = line.strip_prefix(MARK) {
                return Some(said.to_owned());
            }
        }
        None
    }
}
