//! Steps of all launchers of servers: they wait for the first answer, start again, and disturb the process.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::is_port_taken;
use crate::eventually::POLL_INTERVAL;
use crate::process::{Tethered, signal};

pub(super) fn log_path(folder: &Path) -> PathBuf {
    folder.join("server.log")
}

pub(super) fn read_log(folder: &Path) -> String {
    fs::read_to_string(log_path(folder)).unwrap_or_default()
}

/// Returns once a server answers. The error is its log.
pub(super) async fn until_up<F: Future<Output = bool>>(
    process: &Tethered,
    folder: &Path,
    limit: Duration,
    answers: impl Fn() -> F,
) -> Result<(), String> {
    let deadline = Instant::now() + limit;
    loop {
        let has_answered = answers().await;
        // Another server may have taken the port.
        let runs = signal::is_running(process.pid());
        if has_answered && runs {
            return Ok(());
        }
        if !runs || Instant::now() > deadline {
            return Err(format!("the server does not start:\n{}", read_log(folder)));
        }
        sleep(POLL_INTERVAL).await;
    }
}

/// Starts a server anew where an earlier one has ended, whose port and memory may be taken for a moment.
///
/// # Panics
/// If the server does not start within `limit`; the message has its log.
pub(super) async fn anew<F>(limit: Duration, start: impl Fn() -> F) -> Tethered
where
    F: Future<Output = Result<Tethered, String>>,
{
    let deadline = Instant::now() + limit;
    loop {
        match start().await {
            Ok(process) => return process,
            Err(log) if is_still_ending(&log) && Instant::now() < deadline => {
                sleep(POLL_INTERVAL).await;
            }
            Err(log) => panic!("{log}"),
        }
    }
}

fn is_still_ending(log: &str) -> bool {
    is_port_taken(log) || log.contains("pre-existing shared memory block")
}

/// Gives a launcher with a `process` and a `folder` the methods of all launchers; with `alone`, also the methods of a
/// server that is one process.
macro_rules! launched {
    ($launcher:ty, alone) => {
        $crate::servers::launched::launched!($launcher);

        impl $launcher {
            /// Returns the server's folder, which has its files.
            pub fn folder(&self) -> &std::path::Path {
                self.folder.path()
            }

            /// Kills the server (SIGKILL), also a stopped one; it has ended when this returns.
            pub fn kill(&mut self) {
                self.process.end();
            }

            /// Stops the server (SIGSTOP): connections stay open, and it answers nothing.
            pub fn stop(&self) {
                $crate::process::signal::stop(self.pid());
            }

            /// Continues a stopped server (SIGCONT).
            pub fn cont(&self) {
                $crate::process::signal::cont(self.pid());
            }
        }
    };
    ($launcher:ty) => {
        impl $launcher {
            /// Returns the id of the server's first process; it changes with [`restart`](Self::restart).
            pub fn pid(&self) -> u32 {
                self.process.pid()
            }

            /// Returns the server's log since it was last started.
            pub fn log(&self) -> String {
                $crate::servers::launched::read_log(self.folder.path())
            }

            /// Returns the server's wall clock, if it has its own.
            pub fn clock(&self) -> Option<$crate::WallClock> {
                $crate::WallClock::of(self.folder.path())
            }
        }

        impl $crate::faults::Server for $launcher {
            fn addr(&self) -> std::net::SocketAddr {
                self.addr()
            }

            fn stop(&self) {
                self.stop();
            }

            fn cont(&self) {
                self.cont();
            }

            fn kill(&mut self) {
                self.kill();
            }

            async fn restart(&mut self) {
                self.restart().await;
            }
        }
    };
}

pub(super) use launched;
