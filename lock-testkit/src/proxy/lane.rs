//! One direction of one connection.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::{Duration, Instant, sleep_until};
use tokio::{select, try_join};

use super::mode::Mode;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Direction {
    Requests,
    Replies,
}

/// Fate of the bytes of a lane.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Pass { after: Duration },
    PassThenCut { bytes: u64 },
    Swallow,
    Hold,
}

impl Fate {
    fn of(mode: Mode, direction: Direction) -> Self {
        let passes = Self::Pass { after: Duration::ZERO };
        match (mode, direction) {
            (Mode::SwallowReplies, Direction::Replies) => Self::Swallow,
            (Mode::SwallowRequests, Direction::Requests) => Self::Swallow,
            (Mode::CutAfter(bytes), Direction::Requests) => Self::PassThenCut { bytes },
            (Mode::BlackHole, _) => Self::Hold,
            (Mode::Delay(after), _) => Self::Pass { after },
            _ => passes,
        }
    }

    fn passes(self) -> bool {
        matches!(self, Self::Pass { .. } | Self::PassThenCut { .. })
    }
}

/// Reason why a lane has nothing more to carry.
enum End {
    /// The sender closed its side.
    Eof,
    /// The mode closes the connection.
    Cut,
}

/// Bytes, and when they arrive; `None` is at once.
type Parcel = (Option<Instant>, Vec<u8>);

pub(super) struct Lane {
    direction: Direction,
    mode: watch::Sender<Mode>,
    changes: watch::Receiver<Mode>,
    fate: Fate,
    swallowed: bool,
    request_bytes: Arc<AtomicU64>,
}

impl Lane {
    pub(super) fn new(
        direction: Direction,
        mode: watch::Sender<Mode>,
        request_bytes: Arc<AtomicU64>,
    ) -> Self {
        let mut changes = mode.subscribe();
        let fate = Fate::of(*changes.borrow_and_update(), direction);
        Self { direction, mode, changes, fate, swallowed: false, request_bytes }
    }

    /// Carries bytes until the sender closes its side, then closes the receiver's. After an error the whole
    /// connection must be closed.
    pub(super) async fn carry(mut self, from: OwnedReadHalf, to: OwnedWriteHalf) -> io::Result<()> {
        // Delayed bytes wait in a queue, so that a delay does not slow the bytes behind them.
        let (queue, parcels) = mpsc::unbounded_channel();
        match try_join!(self.take(from, queue), deliver(parcels, to))? {
            (End::Eof, ()) => Ok(()),
            (End::Cut, ()) => Err(cut()),
        }
    }

    async fn take(
        &mut self,
        mut from: OwnedReadHalf,
        queue: mpsc::UnboundedSender<Parcel>,
    ) -> io::Result<End> {
        let mut chunk = vec![0; 16 * 1024];
        loop {
            let read = self.read(&mut from, &mut chunk).await?;
            // The mode may have changed while the bytes came in; then the new one counts.
            let end = match (self.settle().await?, read) {
                (Fate::PassThenCut { bytes: 0 }, _) => Some(End::Cut),
                (Fate::Swallow, 0) => self.swallow_the_end().await?,
                (Fate::Swallow, _) => self.swallow(),
                (_, 0) => Some(End::Eof),
                (fate, read) => self.pass(fate, &chunk[..read], &queue),
            };
            if let Some(end) = end {
                return Ok(end);
            }
        }
    }

    /// Reads while the mode lets bytes pass or swallows them. With a used-up budget it reads nothing.
    async fn read(&mut self, from: &mut OwnedReadHalf, chunk: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.settle().await? == (Fate::PassThenCut { bytes: 0 }) {
                return Ok(0);
            }
            select! {
                biased;
                _ = self.changes.changed() => self.adopt()?,
                read = from.read(chunk) => return read,
            }
        }
    }

    /// Decides on the bytes of this lane by the newest mode. Waits while that mode holds them.
    async fn settle(&mut self) -> io::Result<Fate> {
        if self.changes.has_changed().unwrap_or(false) {
            self.adopt()?;
        }
        while self.fate == Fate::Hold {
            let _ = self.changes.changed().await;
            self.adopt()?;
        }
        Ok(self.fate)
    }

    fn adopt(&mut self) -> io::Result<()> {
        self.fate = Fate::of(*self.changes.borrow_and_update(), self.direction);
        match self.swallowed && self.fate.passes() {
            true => Err(cut()),
            false => Ok(()),
        }
    }

    fn swallow(&mut self) -> Option<End> {
        self.swallowed = true;
        None
    }

    async fn swallow_the_end(&mut self) -> io::Result<Option<End>> {
        self.swallowed = true;
        // There is nothing more to read. The receiver learns of the end when the lane passes bytes again.
        let _ = self.changes.changed().await;
        self.adopt()?;
        Ok(None)
    }

    /// Sends a chunk on its way, or the part that the budget allows.
    fn pass(
        &mut self,
        fate: Fate,
        chunk: &[u8],
        queue: &mpsc::UnboundedSender<Parcel>,
    ) -> Option<End> {
        let (arrival, passed, end) = match fate {
            Fate::PassThenCut { bytes } => {
                let passed = &chunk[..chunk.len().min(bytes as usize)];
                (None, passed, self.spend(bytes - passed.len() as u64))
            }
            Fate::Pass { after } if !after.is_zero() => (Some(Instant::now() + after), chunk, None),
            _ => (None, chunk, None),
        };
        self.count(passed);
        // The receiver ends only together with this lane.
        let _ = queue.send((arrival, passed.to_vec()));
        end
    }

    /// Reduces the budget to `left` bytes. When it is used up, the replies stop before the last byte is sent.
    fn spend(&mut self, left: u64) -> Option<End> {
        self.fate = Fate::PassThenCut { bytes: left };
        if left > 0 {
            return None;
        }
        self.mode.send_replace(Mode::BlackHole);
        Some(End::Cut)
    }

    fn count(&self, passed: &[u8]) {
        if self.direction == Direction::Requests {
            let bytes = passed.len() as u64;
            self.request_bytes.fetch_add(bytes, Ordering::AcqRel);
        }
    }
}

/// Hands parcels over when they are due; then closes the receiver's side.
async fn deliver(
    mut parcels: mpsc::UnboundedReceiver<Parcel>,
    mut to: OwnedWriteHalf,
) -> io::Result<()> {
    while let Some((arrival, bytes)) = parcels.recv().await {
        if let Some(arrival) = arrival {
            sleep_until(arrival).await;
        }
        to.write_all(&bytes).await?;
    }
    to.shutdown().await
}

fn cut() -> io::Error {
    io::ErrorKind::ConnectionAborted.into()
}
