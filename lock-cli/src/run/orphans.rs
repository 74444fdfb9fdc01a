//! Orphans: the processes that a command left behind. They are our children if we are the first process of a
//! container, or a subreaper.

use rustix::process::Pid;

/// Reaps all children that have ended, so that none stays as a zombie. Leaves out `command`, since other code waits
/// for its end.
#[cfg(target_os = "linux")]
pub(super) fn reap(command: Option<Pid>) {
    use nix::sys::wait::{Id, WaitPidFlag, waitid};

    let command = command.map(|command| command.as_raw_nonzero().get());
    let ended = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG;
    loop {
        let next = waitid(Id::All, ended | WaitPidFlag::WNOWAIT).ok().and_then(|child| child.pid());
        let orphan = next.filter(|child| Some(child.as_raw()) != command);
        if orphan.is_none_or(|orphan| waitid(Id::Pid(orphan), ended).is_err()) {
            return;
        }
    }
}

/// Does nothing: on other systems this process reaps no orphans.
#[cfg(not(target_os = "linux"))]
pub(super) fn reap(_command: Option<Pid>) {}
