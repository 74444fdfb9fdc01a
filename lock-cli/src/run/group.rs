//! The command's processes, which signals reach all.
//!
//! A command whose input is our terminal shares our process group, as a terminal gives input, Ctrl-C and Ctrl-Z to one group.
//! Other processes may be in that group too, such as the rest of a pipeline, so the command's are signalled one by one. Every
//! other command gets a group of its own, to which the system sends a signal at once.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use leasehold::core::Slots;
use leasehold::{LockName, MultiGuard};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpgid, getpgrp, kill_process, kill_process_group,
    test_kill_process_group, waitid,
};
use rustix::termios::tcgetpgrp;
use tokio::process::Child;
use tokio::time::{sleep, timeout};

use super::signals::is_ending;
use super::{orphans, trampoline};
use crate::exit::Failure;
use crate::terminal;

/// Interval of looks for the rest of a group: the system does not report the end of grandchildren.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Interval of SIGKILLs to the rest of a shared group, which may start processes meanwhile.
const KILL_INTERVAL: Duration = Duration::from_millis(100);

/// Signals of a terminal, which sends them to the whole group in its foreground.
const OF_TERMINALS: [Signal; 3] = [Signal::INT, Signal::QUIT, Signal::WINCH];

/// Length from which the system may refuse a variable: Linux takes 128 KiB with its name.
const LONGEST: usize = 130_000;

/// The variable with the slots of a permit; a hold of another kind has none.
const SLOT: &str = "LEASEHOLD_SLOT";

/// Returns true if a command shares our group: its input is the terminal of our session.
pub(super) fn is_shared() -> bool {
    tcgetpgrp(io::stdin()).is_ok()
}

/// A command, with the processes that it left in its process group.
pub(super) struct Group {
    child: Child,
    command: Pid,
    /// The process group of the command: its own, or ours.
    id: Pid,
    /// True once the command and the group of its own were seen to be gone: another process may get their id.
    is_gone: bool,
    refusal_told: bool,
}

impl Group {
    /// Starts `command`, with the facts about the locks in its environment: see [`known`].
    pub(super) fn start(
        command: &[OsString],
        names: &[LockName],
        guard: &MultiGuard,
    ) -> Result<Self, Failure> {
        let failed = |error| Failure::system("cannot start a process", &error);
        let mut start = trampoline::command(command);
        // The variables of an outer `leasehold` do not belong to this command.
        start.env_remove(SLOT).envs(known(names, guard)).kill_on_drop(true);
        let is_shared = is_shared();
        match is_shared {
            true => orphans::adopt().map_err(failed)?,
            false => _ = start.process_group(0),
        }
        let child = start.spawn().map_err(failed)?;
        let command = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        let command = command.ok_or_else(|| failed(io::Error::other("no id")))?;
        let id = if is_shared { getpgrp() } else { command };
        Ok(Self { child, command, id, is_gone: false, refusal_told: false })
    }

    /// Returns the process of the command.
    pub(super) fn command(&self) -> Pid {
        self.command
    }

    /// Waits until the command itself has ended. Cancel safe.
    pub(super) async fn ended(&mut self) -> Result<ExitStatus, Failure> {
        self.child.wait().await.map_err(|error| Failure::system("cannot wait", &error))
    }

    /// Sends a signal to all processes of the group, and to the command and its own group if it has left the group. No
    /// process may be left.
    pub(super) fn send(&mut self, signal: Signal) {
        let send = |process| kill_process(process, signal);
        let mut sent = match self.shares_ours() {
            true => orphans::descendants_in(self.id).into_iter().map(send).collect(),
            false => Vec::new(),
        };
        // In a shared group, the command has a group of its own only if it has made one, as `timeout` does.
        let own = match self.is_gone {
            true => Err(Errno::SRCH),
            false => kill_process_group(self.command, signal),
        };
        self.is_gone |= own == Err(Errno::SRCH) && self.child.id().is_none();
        // Only Linux lists descendants.
        if own == Err(Errno::SRCH) && (sent.is_empty() || self.has_left()) {
            sent.extend(self.child.id().map(|_| send(self.command)));
        }
        sent.push(own);
        if sent.contains(&Err(Errno::PERM)) && !std::mem::replace(&mut self.refusal_told, true) {
            terminal::error(
                "the command cannot be signalled: it runs as another user, and continues until it ends by itself",
            );
        }
    }

    /// Sends a signal that came to us, unless the terminal has sent it to the command too.
    pub(super) fn pass_on(&mut self, signal: Signal) {
        let is_sent = self.shares_ours() && OF_TERMINALS.contains(&signal) && !self.has_left();
        if !is_sent {
            self.send(signal);
        }
        // A stopped process ends by no other signal; a terminal stops a command in another group that reads it.
        if is_ending(signal) {
            self.send(Signal::CONT);
        }
    }

    /// Kills all processes of the group. Returns once none of a shared group is left. Cancel safe.
    pub(super) async fn kill(&mut self) {
        self.send(Signal::KILL);
        while self.shares_ours() && timeout(KILL_INTERVAL, self.gone()).await.is_err() {
            self.send(Signal::KILL);
        }
    }

    fn shares_ours(&self) -> bool {
        self.id != self.command
    }

    /// Returns true if the command runs in another group than the one in which it was started.
    fn has_left(&self) -> bool {
        // The id of an ended command may belong to another process by now.
        self.child.id().is_some() && getpgid(Some(self.command)).is_ok_and(|group| group != self.id)
    }

    /// Asks the whole group to end.
    pub(super) fn ask_to_end(&mut self) {
        self.send(Signal::TERM);
        // Only this signal reaches a stopped process.
        self.send(Signal::CONT);
    }

    /// Waits until no process of the group is left. Cancel safe.
    pub(super) async fn gone(&mut self) {
        let _ = self.child.wait().await;
        while self.is_left() {
            orphans::reap(None);
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Returns true if a process of the group, or of a group that the command has made, is left after the command. In a
    /// shared group, such a process is our child or another descendant.
    fn is_left(&mut self) -> bool {
        let any = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        self.is_gone |= test_kill_process_group(self.command) == Err(Errno::SRCH);
        let is_child = || waitid(WaitId::Pgid(Some(self.id)), any).err() != Some(Errno::CHILD);
        let is_further = || !orphans::descendants_in(self.id).is_empty();
        !self.is_gone || self.shares_ours() && (is_child() || is_further())
    }
}

/// Returns a command's variables about its locks: name, token and slots of the first one on the command line, and the
/// tokens of all.
fn known(names: &[LockName], guard: &MultiGuard) -> Vec<(&'static str, String)> {
    let tokens: BTreeMap<String, u64> =
        guard.tokens().map(|(name, token)| (name.as_str().to_owned(), token.get())).collect();
    let tokens = serde_json::json!(tokens).to_string();
    let mut known = Vec::new();
    if tokens.len() < LONGEST {
        known.push(("LEASEHOLD_TOKENS", tokens));
    }
    if let Some(first) = names.first() {
        known.push(("LEASEHOLD_NAME", first.as_str().to_owned()));
        let hold = guard.guards().iter().find(|hold| hold.name() == first);
        known.extend(hold.map(|hold| ("LEASEHOLD_TOKEN", hold.token().to_string())));
        // C36
        let slots = hold.map(|hold| Slots::new(hold.slots())).filter(|slots| *slots != Slots::NONE);
        known.extend(slots.map(|slots| (SLOT, slots.to_string())));
    }
    known
}
