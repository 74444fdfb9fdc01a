//! Job control: the command may use the terminal, and Ctrl-Z stops it and us.
//!
//! The command is in a process group of its own. So the terminal belongs to our group at first: Ctrl-C
//! comes to us, and we pass it on. The system stops a command that reads the terminal (SIGTTIN) or sets
//! it (SIGTTOU). Then we give the terminal to the command, which gets Ctrl-C and Ctrl-Z from then on.
//! When Ctrl-Z has stopped the command, we stop our own group too, so that the shell sees it; nobody
//! renews the lock meanwhile. A SIGTSTP that came by kill, and not from the terminal, stops us and the
//! command, but not the process that started us.
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
    /// Ctrl-Z was typed at us.
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

/// The signals by which the terminal tells of jobs. We have to listen before the command starts: a
/// Ctrl-Z that stopped us alone would leave the command running, while nobody renews its lock.
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

    /// The signal by which the terminal has stopped the command since we last looked. One that was
    /// stopped by SIGSTOP waits for a SIGCONT, and keeps the lock.
    fn stopped_by_terminal(&self) -> Option<Signal> {
        const TERMINALS: [Signal; 3] = [Signal::TSTP, Signal::TTIN, Signal::TTOU];
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        let status = waitid(WaitId::Pid(self.group), options).ok().flatten();
        let number = status.and_then(|status| status.stopping_signal());
        TERMINALS.into_iter().find(|signal| Some(signal.as_raw()) == number)
    }

    /// Gives the command the terminal, if it is ours to give.
    pub(super) fn hand_over(&mut self) -> bool {
        let ours = self.foreground() == Some(getpgrp());
        self.is_in_front = self.is_in_front || ours && self.put_in_front(self.group);
        ours
    }

    /// Stops us, and our own group if the terminal is ours or the command's, as Ctrl-Z does.
    /// Returns when we go on.
    pub(super) fn suspend(&mut self) {
        let front = self.foreground();
        if front.is_none_or(|front| front != getpgrp() && front != self.group) {
            let _ = kill_process(getpid(), Signal::STOP);
            return;
        }
        // There is no shell above the first group of a session that could let it go on.
        if getsid(None).is_ok_and(|session| session == getpgrp()) {
            return;
        }
        if self.is_in_front {
            self.put_in_front(getpgrp());
        }
        let _ = kill_current_process_group(Signal::STOP);
    }

    /// After a suspension: what had the terminal has it again.
    pub(super) fn resume(&mut self) {
        if self.is_in_front && self.foreground() == Some(getpgrp()) {
            self.put_in_front(self.group);
        }
    }

    fn foreground(&self) -> Option<Pid> {
        tcgetpgrp(self.terminal.as_ref()?.as_fd()).ok()
    }

    /// To set the foreground from the background is allowed to those who block SIGTTOU.
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

/// The shell finds the terminal where it left it.
impl Drop for Job {
    fn drop(&mut self) {
        if self.is_in_front && self.foreground() == Some(self.group) {
            self.put_in_front(getpgrp());
        }
    }
}
