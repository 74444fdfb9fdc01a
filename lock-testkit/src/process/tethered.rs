//! A server process that ends at any end of the test process.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A shell that starts a program and kills it when the shell's own input ends.
///
/// The other end of that input belongs to this process. When this process ends, even by SIGKILL, the system closes
/// it, `cat` ends, and the program is killed, even if it is stopped. The program's output goes to a file, because a
/// program that inherits ours keeps `cargo test | tail` waiting for ever.
///
/// When this process ends, the system sends SIGHUP to a process group with a stopped process, so the shell and `cat`
/// must ignore it.
///
/// Arguments: log file, program, its arguments. Prints the program's process id.
const SHELL: &str = r#"
    trap '' HUP
    "$@" </dev/null >"$0" 2>&1 &
    echo $!
    cat >/dev/null
    kill -9 $!
    wait
"#;

/// A shell like [`SHELL`], for a program with child processes that leaves shared memory behind when it is killed. The
/// program gets SIGQUIT, and ends once its children have ended.
///
/// The children are killed, stopped or not, and searched for again until the program has ended: a search may fail on
/// a very busy machine, and the program may start more. After five seconds the program is killed too, but never
/// before its children: with another parent nobody would find them.
const FAMILY_SHELL: &str = r#"
    trap '' HUP
    "$@" </dev/null >"$0" 2>&1 &
    parent=$!
    echo $parent
    cat >/dev/null
    kill_children() {
        kill -9 $(ps -A -o pid= -o ppid= | awk -v p=$parent '$2 == p { print $1 }')
    }
    kill -CONT $parent
    kill -QUIT $parent
    (
        looks=0
        while [ $looks -lt 50 ]; do
            kill_children
            looks=$((looks + 1))
            sleep 0.1
        done
        kill -STOP $parent
        kill_children
        kill -9 $parent
    ) >/dev/null 2>&1 &
    killer=$!
    wait $parent
    kill $killer
"#;

/// A running program on a tether.
#[derive(Debug)]
pub struct Tethered {
    shell: Child,
    pid: u32,
}

impl Tethered {
    /// Starts `program`, with both its outputs in the file `log`.
    pub fn start(program: &str, args: &[String], log: &Path) -> Self {
        Self::by(SHELL, program, args, log)
    }

    /// Starts a `program` that starts others, with the outputs of all in the file `log`.
    pub fn start_family(program: &str, args: &[String], log: &Path) -> Self {
        Self::by(FAMILY_SHELL, program, args, log)
    }

    fn by(script: &str, program: &str, args: &[String], log: &Path) -> Self {
        let mut shell = Command::new("/bin/sh")
            .args(["-c", script])
            .arg(log)
            .arg(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // Ctrl-C ends our process, and so the shell. The shell must not end by Ctrl-C itself, because it must
            // kill the program even if that is stopped.
            .process_group(0)
            .spawn()
            .expect("/bin/sh can be run");
        let pid = reported_pid(&mut shell);
        Self { shell, pid }
    }

    /// The id of the program's process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Kills the program (SIGKILL); it is gone when this returns.
    pub fn end(&mut self) {
        // The shell does the rest at once, and reaps the program last: so its id cannot belong to another process
        // while something may still kill it.
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

impl Drop for Tethered {
    fn drop(&mut self) {
        self.end();
    }
}

fn reported_pid(shell: &mut Child) -> u32 {
    let output = shell.stdout.take().expect("the output is a pipe");
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).expect("the shell's output can be read");
    line.trim().parse().expect("the shell prints a process id")
}

/// A tether for an existing process: it is killed, stopped or not, when this value is dropped or our process ends.
///
/// Drop it before the process is reaped, while the process still has its id.
#[derive(Debug)]
pub(crate) struct Tether {
    shell: Child,
}

impl Tether {
    pub(crate) fn to(pid: u32) -> Self {
        let shell = Command::new("/bin/sh")
            .args(["-c", r#"trap '' HUP; cat >/dev/null; kill -9 "$0""#])
            .arg(pid.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("/bin/sh can be run");
        Self { shell }
    }
}

impl Drop for Tether {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::process::signal;

    const LIMIT: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn a_dropped_tether_takes_a_stopped_program_along() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let args = ["60".to_owned()];
        let sleeper = Tethered::start("sleep", &args, &folder.path().join("log"));
        let pid = sleeper.pid();
        signal::stop(pid);
        drop(sleeper);
        crate::eventually("the sleeper is gone", LIMIT, async || !signal::is_running(pid)).await;
    }

    /// A stopped child that was started after SIGQUIT is killed too: here the program then waits for it.
    #[tokio::test]
    async fn a_dropped_tether_takes_a_late_and_stopped_child_along() {
        const PROGRAM: &str = "trap 'sh -c \"kill -STOP \\$\\$; exec sleep 60\" & echo $!; wait; exit' QUIT; echo ready; \
            while :; do sleep 0.1; done";
        let folder = tempfile::tempdir().expect("a temporary folder");
        let log = folder.path().join("log");
        // A command in the background of a shell ignores SIGQUIT, and another shell cannot change that.
        let args = ["--default-signal=QUIT", "sh", "-c", PROGRAM].map(str::to_owned);
        let family = Tethered::start_family("env", &args, &log);
        let told = || std::fs::read_to_string(&log).unwrap_or_default();
        crate::eventually("it is ready", LIMIT, async || told().contains("ready")).await;
        drop(family);
        // The program's shell may also report the end of its children.
        let child = told().lines().rev().find_map(|line| line.parse().ok());
        let child = child.unwrap_or_else(|| panic!("no child was started: {:?}", told()));
        assert!(!signal::is_running(child), "process {child} is left");
    }
}
