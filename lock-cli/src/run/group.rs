//! The command's processes: a separate group, so that signals reach all of them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use leasehold::core::Slots;
use leasehold::{LockName, MultiGuard};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, getpgid, kill_process, kill_process_group, test_kill_process_group,
};
use tokio::process::Child;
use tokio::time::sleep;

use super::{orphans, trampoline};
use crate::exit::Failure;
use crate::terminal;

/// Interval of looks for the rest of a group: the system does not report the end of grandchildren.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The variable with the slots of a permit; a hold of another kind has none.
const SLOT: &str = "LEASEHOLD_SLOT";

/// A command, with the processes that it left in its process group.
pub(super) struct Group {
    child: Child,
    id: Pid,
    refusal_told: bool,
}

impl Group {
    /// Starts `command`, with the facts about the locks in its environment: see [`known`].
    pub(super) fn start(
        command: &[OsString],
        names: &[LockName],
        guard: &MultiGuard,
    ) -> Result<Self, Failure> {
        let child = trampoline::command(command)
            // The variables of an outer `leasehold` do not belong to this command.
            .env_remove(SLOT)
            .envs(known(names, guard))
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| Failure::system("cannot start a process", &error))?;
        match child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?)) {
            Some(id) => Ok(Self { child, id, refusal_told: false }),
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

    /// Sends a signal to all processes of the group, and to the command if it has left the group. No process may be
    /// left.
    pub(super) fn send(&mut self, signal: Signal) {
        let to_group = kill_process_group(self.id, signal);
        let to_command = if self.has_left() { kill_process(self.id, signal) } else { Ok(()) };
        let refused = [to_group, to_command].contains(&Err(Errno::PERM));
        if refused && !std::mem::replace(&mut self.refusal_told, true) {
            terminal::error(
                "the command cannot be signalled: it runs as another user, and continues until it ends by itself",
            );
        }
    }

    /// Returns true if the command runs in another group than the one in which it was started.
    fn has_left(&self) -> bool {
        // The id of an ended command may belong to another process by now.
        self.child.id().is_some() && getpgid(Some(self.id)).is_ok_and(|group| group != self.id)
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
        while test_kill_process_group(self.id) != Err(Errno::SRCH) {
            orphans::reap(None);
            sleep(POLL_INTERVAL).await;
        }
    }
}

/// Returns a command's variables about its locks: name, token and slots of the first one on the command line, and the
/// tokens of all.
fn known(names: &[LockName], guard: &MultiGuard) -> Vec<(&'static str, String)> {
    let tokens: BTreeMap<String, u64> =
        guard.tokens().map(|(name, token)| (name.as_str().to_owned(), token.get())).collect();
    let mut known = vec![("LEASEHOLD_TOKENS", serde_json::json!(tokens).to_string())];
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
