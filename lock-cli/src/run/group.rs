//! The command's processes: a group of their own, so that all of them can be told to end.

use std::ffi::OsString;
use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use leasehold::LockGuard;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::process::Child;
use tokio::time::{Instant, sleep, timeout_at};

use super::trampoline;
use crate::exit::Failure;

/// How often we look whether the rest of a group is gone: nobody tells of grandchildren.
const GLANCE: Duration = Duration::from_millis(10);

/// A command, and what it started and left in its process group.
pub(super) struct Group {
    child: Child,
    id: Pid,
}

impl Group {
    /// Starts `command`, with what it has to know of the lock in its environment.
    pub(super) fn start(command: &[OsString], guard: &LockGuard) -> Result<Self, Failure> {
        let child = trampoline::command(command)
            .env("LEASEHOLD_NAME", guard.name().as_str())
            .env("LEASEHOLD_TOKEN", guard.token().to_string())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| Failure::system("cannot start a process", &error))?;
        match child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?)) {
            Some(id) => Ok(Self { child, id }),
            None => Err(Failure::system("cannot start a process", &io::Error::other("no id"))),
        }
    }

    pub(super) fn id(&self) -> Pid {
        self.id
    }

    /// Waits until the command itself has ended. Cancel safe.
    pub(super) async fn ended(&mut self) -> Result<ExitStatus, Failure> {
        self.child.wait().await.map_err(|error| Failure::system("cannot wait", &error))
    }

    /// Sends a signal to all of the group. There may be nobody left to get it.
    pub(super) fn send(&self, signal: Signal) {
        let _ = kill_process_group(self.id, signal);
    }

    /// Ends the whole group: asks, and after the grace does it.
    pub(super) async fn end(&mut self, grace: Duration) -> Result<(), Failure> {
        let until = Instant::now() + grace;
        self.send(Signal::TERM);
        // A stopped process gets no signal but this one.
        self.send(Signal::CONT);
        if timeout_at(until, self.gone()).await.is_err() {
            self.send(Signal::KILL);
        }
        self.ended().await.map(drop)
    }

    /// Waits until no process of the group is left.
    async fn gone(&mut self) {
        let _ = self.child.wait().await;
        while test_kill_process_group(self.id).is_ok() {
            sleep(GLANCE).await;
        }
    }
}
