//! Job control: the command may use the terminal, and Ctrl-Z stops it and this process.
//!
//! The command has its own process group. So the terminal belongs to our group at first: we receive Ctrl-C and pass
//! it on. The system stops a command that reads the terminal (SIGTTIN) or sets it (SIGTTOU). Then we give the
//! terminal to the command, which receives Ctrl-C and Ctrl-Z from then on. When Ctrl-Z has stopped the command, we
//! stop our own group too, so that the shell sees it; nobody renews the lock meanwhile. A SIGTSTP by kill, and not
//! from the terminal, stops us and the command, but not the process that started us.
//!
//! ```text
//!            reads or sets the terminal               Ctrl-Z
//! terminal ──────────────────────────────▶ terminal ──────────▶ both stopped,
//!  is ours                                 is the                terminal is
//!                                          command's ◀────────── the shell's
//!                                                       fg
//! ```

use std::fs::File;
use std::os::fd::AsFd;

use nix::sys::signal::{SigSet, SigmaskHow};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpgrp, getpid, getsid, kill_current_process_group,
    kill_process, waitid,
};
use rustix::termios::{tcgetpgrp, tcsetpgrp};
use tokio::signal::unix::Signal as Stream;

use super::group::Group;
use super::signals::stream;
use crate::exit::Failure;

/// Event of the terminal.
pub(super) enum Event {
    /// Ctrl-Z was typed while we had the terminal.
    AskedToStop,
    /// The terminal stopped the command by this signal.
    Stopped(Signal),
}

/// The command as a job of the shell that started us.
pub(super) struct Job {
    group: Pid,
    terminal: Option<File>,
    signals: Signals,
    is_in_front: bool,
}

/// The signals of the terminal about jobs. Listening begins before the command starts: a Ctrl-Z that stopped only us
/// would leave the command running, while nobody renews its lock.
pub(super) struct Signals {
    children: Stream,
    stop: Stream,
}

impl Signals {
    pub(super) fn listen() -> Result<Self, Failure> {
        Ok(Self { children: stream(Signal::CHILD)?, stop: stream(Signal::TSTP)? })
    }
}

impl Job {
    pub(super) fn new(group: &Group, signals: Signals) -> Self {
        let terminal = File::open("/dev/tty").ok();
        Self { group: group.id(), terminal, signals, is_in_front: false }
    }

    /// Waits for the terminal to stop something. Cancel safe.
    pub(super) async fn next(&mut self) -> Event {
        loop {
            if let Some(signal) = self.stopped_by_terminal() {
                return Event::Stopped(signal);
            }
            tokio::select! {
                _ = self.signals.children.recv() => {}
                _ = self.signals.stop.recv() => return Event::AskedToStop,
            }
        }
    }

    /// Returns the signal by which the terminal has stopped the command since the last look. A command that was
    /// stopped by SIGSTOP waits for a SIGCONT, and keeps the lock.
    fn stopped_by_terminal(&self) -> Option<Signal> {
        const TERMINALS: [Signal; 3] = [Signal::TSTP, Signal::TTIN, Signal::TTOU];
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        let status = waitid(WaitId::Pid(self.group), options).ok().flatten();
        let number = status.and_then(|status| status.stopping_signal());
        TERMINALS.into_iter().find(|signal| Some(signal.as_raw()) == number)
    }

    /// Gives the command the terminal, if we may give it.
    pub(super) fn hand_over(&mut self) -> bool {
        let ours = self.foreground() == Some(getpgrp());
        self.is_in_front |= ours && self.put_in_front(self.group);
        ours
    }

    /// Stops this process, and our own group if the terminal belongs to us or the command, as Ctrl-Z does. Returns
    /// when we continue.
    pub(super) fn suspend(&mut self) {
        let front = self.foreground();
        if front.is_none_or(|front| front != getpgrp() && front != self.group) {
            let _ = kill_process(getpid(), Signal::STOP);
            return;
        }
        // No shell above the first group of a session could let it continue.
        if getsid(None).is_ok_and(|session| session == getpgrp()) {
            return;
        }
        if self.is_in_front {
            self.put_in_front(getpgrp());
        }
        let _ = kill_current_process_group(Signal::STOP);
    }

    /// Restores the owner of the terminal after a suspension.
    pub(super) fn resume(&mut self) {
        if self.is_in_front && self.foreground() == Some(getpgrp()) {
            self.put_in_front(self.group);
        }
    }

    fn foreground(&self) -> Option<Pid> {
        tcgetpgrp(self.terminal.as_ref()?.as_fd()).ok()
    }

    /// Sets the foreground group. From the background, only a process that blocks SIGTTOU may do so.
    fn put_in_front(&self, group: Pid) -> bool {
        let Some(terminal) = &self.terminal else {
            return false;
        };
        let mut blocked = SigSet::empty();
        blocked.add(nix::sys::signal::Signal::SIGTTOU);
        let Ok(before) = blocked.thread_swap_mask(SigmaskHow::SIG_BLOCK) else {
            return false;
        };
        let done = tcsetpgrp(terminal.as_fd(), group).is_ok();
        let _ = before.thread_set_mask();
        done
    }
}

/// Returns the terminal to the group that had it at the start.
impl Drop for Job {
    fn drop(&mut self) {
        if self.is_in_front && self.foreground() == Some(self.group) {
            self.put_in_front(getpgrp());
        }
    }
}
