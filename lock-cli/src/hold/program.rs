//! The program for which a lock is held: a process, or whoever has the other end of our input.

use std::future::pending;
use std::io::IsTerminal;
#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;

use rustix::process::Signal;
use tokio::io::{AsyncReadExt, Stdin};
#[cfg(target_os = "linux")]
use tokio::io::{Interest, unix::AsyncFd};

use crate::exit::{Exit, Failure};
use crate::run::Signals;

/// Signals that a terminal sends to all processes at once.
const OF_TERMINAL: [Signal; 3] = [Signal::INT, Signal::HUP, Signal::QUIT];

/// The program, with its process if `--pid` names one.
pub(super) struct Program {
    #[cfg(target_os = "linux")]
    process: Option<AsyncFd<OwnedFd>>,
    /// True if a signal of the terminal is meant for us: no program cleans up under the lock.
    is_user: bool,
}

impl Program {
    /// Finds the process with this id, if any: from now on no other process with the same id is meant.
    #[cfg(target_os = "linux")]
    pub(super) fn of(pid: Option<i32>) -> Result<Self, Failure> {
        use rustix::io::Errno;
        use rustix::process::{Pid, PidfdFlags, pidfd_open};

        let Some(pid) = pid else {
            return Ok(Self { process: None, is_user: std::io::stdin().is_terminal() });
        };
        let opened = Pid::from_raw(pid).ok_or(Errno::SRCH);
        let process = match opened.and_then(|pid| pidfd_open(pid, PidfdFlags::empty())) {
            Err(Errno::SRCH) => {
                let text = format!("--pid {pid}: no such process; it may have ended already");
                return Err(Failure::new(Exit::Usage, text));
            }
            opened => opened.map_err(std::io::Error::from),
        };
        #[expect(
            deprecated,
            reason = "the later function is unsafe, and an OwnedFd is what it asks for"
        )]
        let process = process.and_then(|id| AsyncFd::with_interest(id, Interest::READABLE));
        let failed = |error| Failure::system(&format!("cannot watch process {pid}"), &error);
        Ok(Self { process: Some(process.map_err(failed)?), is_user: false })
    }

    /// Refuses the id of a process: only Linux tells of the end of any process.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn of(pid: Option<i32>) -> Result<Self, Failure> {
        match pid {
            None => Ok(Self { is_user: std::io::stdin().is_terminal() }),
            Some(_) => Err(Failure::new(Exit::Usage, "--pid is for Linux alone")),
        }
    }

    /// Waits until the program wants the lock no longer: its process has ended or, without one, our input. Earlier
    /// input is ignored. Cancel safe.
    pub(super) async fn ended(&self, input: &mut Stdin) {
        if self.has_process() {
            return self.process_ended().await;
        }
        let mut passed_over = [0; 256];
        while input.read(&mut passed_over).await.is_ok_and(|read| read > 0) {}
    }

    /// Waits until the process has ended; for ever without a process. Cancel safe.
    pub(super) async fn process_ended(&self) {
        #[cfg(target_os = "linux")]
        if let Some(process) = &self.process {
            let _ = process.readable().await;
            return;
        }
        pending().await
    }

    /// Waits for a signal that ends the hold. A signal of the terminal has also reached the program that started us.
    /// That program may clean up under the lock, and its end shows when it is done. Cancel safe.
    pub(super) async fn interrupted(&self, signals: &mut Signals) -> Signal {
        loop {
            let signal = signals.interruption().await;
            if self.is_user || !OF_TERMINAL.contains(&signal) {
                return signal;
            }
        }
    }

    fn has_process(&self) -> bool {
        #[cfg(target_os = "linux")]
        return self.process.is_some();
        #[cfg(not(target_os = "linux"))]
        false
    }
}
