//! Starts `leasehold`, and collects its results.

use std::fs;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use lock_testkit::eventually;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

use crate::LIMIT;
use crate::store::Store;

/// A folder with `leasehold`, and files by which the tests' commands report.
pub(crate) struct Shell {
    folder: TempDir,
    url: Option<String>,
}

impl Shell {
    /// Creates a shell in which LEASEHOLD_URL names the store.
    pub(crate) fn of(store: &impl Store) -> Self {
        Self { url: Some(store.url()), ..Self::without_url() }
    }

    /// Creates a shell in which LEASEHOLD_URL is `url`.
    pub(crate) fn with_url(url: &str) -> Self {
        Self { url: Some(url.to_owned()), ..Self::without_url() }
    }

    /// Returns this shell with another LEASEHOLD_URL.
    pub(crate) fn at(self, url: &str) -> Self {
        Self { url: Some(url.to_owned()), ..self }
    }

    /// Creates a shell without any location of locks.
    pub(crate) fn without_url() -> Self {
        heed_signals();
        Self { folder: tempfile::tempdir().expect("a temporary folder"), url: None }
    }

    /// Returns the command `leasehold` with these arguments, not yet started.
    pub(crate) fn leasehold(&self, args: &[&str]) -> Command {
        self.command(env!("CARGO_BIN_EXE_leasehold"), args)
    }

    /// Returns a command of any program, which finds `leasehold` by the variable L.
    pub(crate) fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).current_dir(self.folder.path()).kill_on_drop(true);
        command.env("L", env!("CARGO_BIN_EXE_leasehold"));
        command.env("HOME", self.folder.path());
        command.env_remove("LEASEHOLD_URL").env_remove("LEASEHOLD_NAME").env_remove("NO_COLOR");
        command.envs(self.url.iter().map(|url| ("LEASEHOLD_URL", url)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs `leasehold` to its end.
    pub(crate) async fn run(&self, args: &[&str]) -> Output {
        Output::of(self.leasehold(args)).await
    }

    /// Starts `leasehold run` with these arguments; its stderr goes to a file.
    pub(crate) fn start(&self, args: &[&str]) -> Running {
        let log = self.file(&format!("stderr-{}", rand::random::<u64>()));
        let stderr = fs::File::create(&log).expect("a file");
        let child = self.leasehold(args).stdout(Stdio::null()).stderr(stderr).spawn();
        Running { child: child.expect("leasehold starts"), log }
    }

    /// Starts `leasehold run` with these options and this shell command; returns once the command runs.
    pub(crate) async fn hold(&self, options: &[&str], name: &str, command: &str) -> Running {
        let _ = fs::remove_file(self.file("holds"));
        let script = format!("echo $$ > pid; echo > holds; {command}");
        let running = self.start(&[&["run"], options, &[name, "--", "sh", "-c", &script]].concat());
        self.appears("holds").await;
        running
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Waits until a command has made a file.
    pub(crate) async fn appears(&self, name: &str) {
        eventually(name, LIMIT, async || self.file(name).exists()).await;
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap_or_default()
    }

    /// Returns a process id that a command wrote to the file `name`.
    pub(crate) async fn pid(&self, name: &str) -> u32 {
        eventually("a process id", LIMIT, async || self.read(name).ends_with('\n')).await;
        self.read(name).trim().parse().expect("a process id")
    }
}

/// A running `leasehold`.
pub(crate) struct Running {
    child: Child,
    log: PathBuf,
}

impl Running {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    pub(crate) fn send(&self, signal: Signal) {
        send(self.pid(), signal);
    }

    pub(crate) fn stderr(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until it reports that it waits, as `-v` makes it do.
    pub(crate) async fn waits(&self) {
        eventually("it waits", LIMIT, async || self.stderr().contains("waiting")).await;
    }

    /// Waits for its end.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        timeout(LIMIT, self.child.wait()).await.expect("it ends").expect("it is ours")
    }

    /// Returns its exit code.
    pub(crate) async fn code(&mut self) -> i32 {
        let status = self.ended().await;
        status.code().unwrap_or_else(|| panic!("no exit code but {status}: {}", self.stderr()))
    }

    /// Returns its exit code, and the time since `since`.
    pub(crate) async fn code_since(&mut self, since: Instant) -> (i32, Duration) {
        let code = self.code().await;
        (code, since.elapsed())
    }
}

pub(crate) fn send(pid: u32, signal: Signal) {
    let id = Pid::from_raw(pid as i32).expect("a process id");
    let _ = kill_process(id, signal);
}

/// Output of a command.
pub(crate) struct Output {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Output {
    pub(crate) async fn of(mut command: Command) -> Self {
        let output = timeout(LIMIT, command.output()).await.expect("it ends").expect("it starts");
        Self {
            code: output.status.code().unwrap_or_else(|| panic!("it was killed: {output:?}")),
            stdout: String::from_utf8(output.stdout).expect("UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }
}

/// Lets the children of this process heed the signals that it ignores, as a background job of a shell or under `nohup`. A handler
/// of this process is the default action in a child.
fn heed_signals() {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    for kind in [SignalKind::hangup(), SignalKind::interrupt(), SignalKind::quit()] {
        if ignored >> (kind.as_raw_value() - 1) & 1 == 1 {
            drop(signal(kind).expect("a handler"));
        }
    }
}
