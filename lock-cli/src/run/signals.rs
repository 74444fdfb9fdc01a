//! The signals that are passed on to the command, and the signal of orphans.

use std::fs;
use std::future::poll_fn;
use std::task::Poll;

use futures_util::FutureExt;
use rustix::process::{Pid, Signal};
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};
use tokio::task::yield_now;

use super::orphans;
use crate::exit::Failure;

const PASSED_ON: [Signal; 7] = [
    Signal::INT,
    Signal::TERM,
    Signal::HUP,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
    Signal::WINCH,
];

/// Signals that ask to end.
const ENDING: [Signal; 4] = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT];

/// The signals sent to us that are meant for the command.
pub(crate) struct Signals {
    streams: Vec<(Signal, Stream)>,
    /// The signals of children that have ended.
    children: Stream,
    command: Option<Pid>,
}

impl Signals {
    /// Listens from now on. A signal that was ignored at our start, as with nohup, stays ignored.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let ignored = ignored();
        let heard = PASSED_ON.into_iter().filter(|signal| !is_in(ignored, *signal));
        let streams = heard.map(|signal| Ok((signal, stream(signal)?)));
        let streams = streams.collect::<Result<_, Failure>>()?;
        Ok(Self { streams, children: stream(Signal::CHILD)?, command: None })
    }

    /// Leaves this child unreaped, since other code waits for its end.
    pub(super) fn leave_to_its_waiter(&mut self, command: Pid) {
        self.command = Some(command);
    }

    /// Waits for the next signal, and reaps orphans meanwhile. Cancel safe.
    pub(super) async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            while let Poll::Ready(Some(())) = self.children.poll_recv(context) {
                orphans::reap(self.command);
            }
            for (signal, stream) in &mut self.streams {
                if let Poll::Ready(Some(())) = stream.poll_recv(context) {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Waits for a signal that asks to end. Cancel safe.
    pub(super) async fn end(&mut self) {
        while !is_ending(self.next().await) {}
    }

    /// Returns true if an unhandled signal that asks to end has come: the system may have reported the end of the
    /// command first.
    pub(super) async fn has_asked_to_end(&mut self) -> bool {
        // Lets the runtime receive its input.
        yield_now().await;
        self.end().now_or_never().is_some()
    }

    /// Waits for a signal that would end a process by default. Cancel safe.
    pub(crate) async fn interruption(&mut self) -> Signal {
        loop {
            match self.next().await {
                Signal::WINCH => {}
                signal => return signal,
            }
        }
    }
}

/// The requests to stop. A terminal sends them to the command too, which may ignore them or have left the group: then the
/// command would run while nobody renews its locks.
pub(super) struct Stops(Stream);

impl Stops {
    pub(super) fn listen() -> Result<Self, Failure> {
        Ok(Self(stream(Signal::TSTP)?))
    }

    /// Waits for the next request. Cancel safe.
    pub(super) async fn next(&mut self) {
        let _ = self.0.recv().await;
    }
}

/// Returns true if a signal asks to end.
pub(super) fn is_ending(signal: Signal) -> bool {
    ENDING.contains(&signal)
}

/// Returns a stream of one signal.
fn stream(kind: Signal) -> Result<Stream, Failure> {
    signal(SignalKind::from_raw(kind.as_raw()))
        .map_err(|error| Failure::system("cannot listen for signals", &error))
}

/// Returns the signals that were ignored at the start of this process, a bit each; none if the system does not show
/// them.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bits = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    bits.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0)
}

fn is_in(bits: u64, signal: Signal) -> bool {
    bits & (1 << (signal.as_raw() - 1)) != 0
}
