//! Starts the command by way of this program, so that it does not outlive it.
//!
//! On Linux the system ends a process together with its parent if the process itself asked for it. So we start this
//! program again; it asks, and then becomes the command: same process, same id.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process;

use rustix::process::Pid;

use crate::exit::{Exit, Failure};

/// Our first argument if we must become a command.
const WORD: &str = "__exec";

/// Returns a process that becomes `command`.
pub(super) fn command(command: &[OsString]) -> tokio::process::Command {
    let mut start = tokio::process::Command::new(ourselves());
    start.arg(WORD).arg(process::id().to_string()).args(command);
    start
}

/// Returns the running program, even if its file was replaced.
fn ourselves() -> PathBuf {
    if cfg!(target_os = "linux") {
        return PathBuf::from("/proc/self/exe");
    }
    env::current_exe().unwrap_or_else(|_| PathBuf::from("leasehold"))
}

/// Becomes the command, if this process was started for that; returns if it cannot.
pub(crate) fn entered() -> Option<Exit> {
    let mut args = env::args_os().skip(1);
    if args.next().as_deref() != Some(OsStr::new(WORD)) {
        return None;
    }
    let parent = args.next().and_then(|id| id.to_str()?.parse().ok()).and_then(Pid::from_raw);
    Some(parent.map_or(Exit::Usage, |parent| become_command(parent, args)))
}

fn become_command(parent: Pid, mut args: impl Iterator<Item = OsString>) -> Exit {
    let Some(program) = args.next() else {
        return Exit::Usage;
    };
    if let Err(error) = end_with(parent) {
        return Failure::system("cannot bind the command to this process", &error).tell();
    }
    let error = process::Command::new(&program).args(args).exec();
    let exit = match error.kind() {
        io::ErrorKind::NotFound => Exit::NotFound,
        _ => Exit::NotExecutable,
    };
    Failure::new(exit, format!("cannot run {program:?}: {error}")).tell()
}

/// Makes the system kill this process when `parent` has ended, which may be the case already.
#[cfg(target_os = "linux")]
fn end_with(parent: Pid) -> io::Result<()> {
    use rustix::process::{Signal, getppid, set_parent_process_death_signal};

    set_parent_process_death_signal(Some(Signal::KILL))?;
    match getppid() {
        Some(found) if found == parent => Ok(()),
        _ => Err(io::Error::other("it has ended")),
    }
}

#[cfg(not(target_os = "linux"))]
fn end_with(_parent: Pid) -> io::Result<()> {
    Ok(())
}
