//! Stopping, continuing and killing processes by their id.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

/// A signal takes effect within microseconds; this limit is for a very busy machine.
const LIMIT: Duration = Duration::from_secs(10);

/// Returns true if the process `pid` exists and is not only waiting to be reaped.
pub fn is_running(pid: u32) -> bool {
    test_kill_process(as_pid(pid)).is_ok() && state(pid) != Some('Z')
}

/// Returns true if the process `pid` is running, and is not stopped.
pub(crate) fn is_awake(pid: u32) -> bool {
    is_running(pid) && state(pid) != Some('T')
}

/// Stops a process (SIGSTOP). Returns when it is stopped or dead: it may have been about to end, and a stopped parent
/// does not reap it.
pub fn stop(pid: u32) {
    send(pid, Signal::STOP);
    wait_until(pid, |state| matches!(state, 'T' | 'Z'));
}

/// Lets a stopped process go on (SIGCONT).
pub fn cont(pid: u32) {
    send(pid, Signal::CONT);
    wait_until(pid, |state| state != 'T');
}

/// Kills a process (SIGKILL), stopped or not. This does no harm if the process has ended but is not reaped: until
/// then no other process gets its id.
pub fn kill(pid: u32) {
    let _ = kill_process(as_pid(pid), Signal::KILL);
}

fn send(pid: u32, signal: Signal) {
    kill_process(as_pid(pid), signal)
        .unwrap_or_else(|error| panic!("cannot signal process {pid}: {error}"));
}

fn as_pid(pid: u32) -> Pid {
    Pid::from_raw(pid as i32).expect("a process id is not zero")
}

/// The sender of a signal continues while it is delivered. Without `/proc` there is no wait.
fn wait_until(pid: u32, arrived: impl Fn(char) -> bool) {
    let deadline = Instant::now() + LIMIT;
    while state(pid).is_some_and(|state| !arrived(state)) {
        assert!(Instant::now() < deadline, "process {pid} ignores a signal");
        thread::sleep(Duration::from_micros(100));
    }
}

/// Returns the system's letter for the state of a process: T is stopped, Z is dead and not reaped.
fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it is in parentheses and may hold anything, so this counts from its end.
    stat.rsplit_once(") ")?.1.chars().next()
}
