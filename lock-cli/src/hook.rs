//! `elect --on-change`: a shell command at each change of the role, one after the other.

use std::ffi::OsString;
use std::process::Stdio;

use leasehold::{FencingToken, LockName};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::run::leave_to_its_waiter;
use crate::terminal;

/// A change of the role of this candidate.
#[derive(Clone, Copy)]
pub(crate) enum Change {
    Leads(FencingToken),
    /// Leads no longer, or not yet.
    IsCandidate(Option<FencingToken>),
}

/// The command for each change.
pub(crate) struct Hook<'a> {
    pub(crate) command: Option<&'a OsString>,
    pub(crate) name: &'a LockName,
    pub(crate) quiet: bool,
    pub(crate) changes: UnboundedReceiver<Change>,
}

impl Hook<'_> {
    /// Runs the command for each change, in order, until there will be no further one. If this is dropped, the
    /// present command is killed.
    pub(crate) async fn run(mut self) {
        while let Some(change) = self.changes.recv().await {
            let Some(command) = self.command else { continue };
            let why = match self.start(command, change) {
                Ok(mut running) => match running.0.wait().await {
                    Ok(status) if status.success() => continue,
                    Ok(status) => status.to_string(),
                    Err(error) => error.to_string(),
                },
                Err(error) => error.to_string(),
            };
            if !self.quiet {
                terminal::warning(&format!("the command of --on-change failed: {why}"));
            }
        }
    }

    fn start(&self, command: &OsString, change: Change) -> std::io::Result<Running> {
        let (role, term) = match change {
            Change::Leads(term) => ("leader", Some(term)),
            Change::IsCandidate(term) => ("candidate", term),
        };
        let mut hook = Command::new("sh");
        hook.arg("-c").arg(command).stdin(Stdio::null()).process_group(0);
        hook.env("LEASEHOLD_NAME", self.name.as_str()).env("LEASEHOLD_ROLE", role);
        hook.env_remove("LEASEHOLD_TOKEN");
        hook.envs(term.map(|term| ("LEASEHOLD_TOKEN", term.to_string())));
        let running = Running(hook.spawn()?);
        leave_to_its_waiter(running.process());
        Ok(running)
    }
}

/// A command that is killed, with its process group, if nobody waits for its end any more.
struct Running(Child);

impl Running {
    fn process(&self) -> Option<Pid> {
        Pid::from_raw(self.0.id()?.try_into().ok()?)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        leave_to_its_waiter(None);
        let _ = self.process().map(|process| kill_process_group(process, Signal::KILL));
    }
}
