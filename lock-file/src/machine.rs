//! The machine's time: the clock of the holds, and the boot from which the clock counts.
//!
//! The clock is the uptime of the kernel, which all its containers share. A process in a time namespace sees another
//! uptime, so the namespace's offset is subtracted.
//!
//! After a reboot the uptime begins at 0 again. The boot id identifies records of an earlier boot. A container may
//! have its own boot id, which proves nothing. Then a record that was written at a later uptime than now is of an
//! earlier boot. Any other record may be of this boot, and is valid.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lock_core::backend::{ClockReading, ServerTime};
use lock_core::{Finding, LockError};

use crate::platform;

/// Source of the time. Tests replace the boot and the clocks.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    /// The kernel's own id of this boot, if it can be read.
    pub(crate) boot: Option<Arc<str>>,
    /// Lead of `uptime` over the machine's uptime, in ns.
    pub(crate) offset: i128,
    pub(crate) uptime: fn() -> Duration,
    pub(crate) wall: fn() -> Duration,
}

/// One reading of all clocks.
#[derive(Clone, Debug)]
pub(crate) struct Now {
    /// The kernel's own id of this boot, if it can be read.
    pub(crate) boot: Option<Arc<str>>,
    /// The time since the machine's boot, suspend included.
    pub(crate) uptime: Duration,
    /// The wall clock in microseconds. It is used for tokens, and for no decision.
    pub(crate) wall_micros: u64,
}

impl Machine {
    /// Returns the machine of this process.
    pub(crate) fn this() -> Result<Self, LockError> {
        let offset = platform::time_offset().map_err(|error| LockError::Config {
            message: format!(
                "locks in files need the uptime from Linux' /proc: {error}; \
                 choose another backend here"
            ),
        })?;
        let boot = platform::boot_id().map(Arc::from);
        Ok(Self { boot, offset, uptime: platform::uptime, wall: wall_time })
    }

    /// Checks the time namespace again, which may have changed since the directory was opened.
    pub(crate) fn examined(&self) -> Finding {
        match platform::time_offset() {
            Ok(offset) if offset == self.offset => Finding::good(
                "clock",
                "holds end by the machine's uptime, in every container alike",
            ),
            Ok(_) => Finding::risk(
                "clock",
                "this process was moved into another time namespace",
                "start it anew",
            ),
            Err(error) => Finding::risk(
                "clock",
                format!("the machine's uptime cannot be read: {error}"),
                "mount /proc, and start the process in its time namespace",
            ),
        }
    }

    pub(crate) fn now(&self) -> Now {
        let uptime = (self.uptime)().as_nanos() as i128 - self.offset;
        Now {
            boot: self.boot.clone(),
            uptime: Duration::from_nanos(uptime.max(0) as u64),
            wall_micros: (self.wall)().as_micros() as u64,
        }
    }
}

/// Time of writing of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    boot: Option<Arc<str>>,
    uptime: Duration,
}

/// Stands for a boot id that proves nothing.
const NO_BOOT: &str = "-";

impl Written {
    pub(crate) fn at(now: &Now) -> Self {
        Self { boot: now.boot.clone(), uptime: now.uptime }
    }

    /// Returns the time as a line of the record.
    pub(crate) fn to_line(&self) -> String {
        format!("{} {:020}", self.boot.as_deref().unwrap_or(NO_BOOT), self.uptime.as_nanos())
    }

    /// Parses a line of [`to_line`](Self::to_line); `None` for any other text.
    pub(crate) fn from_line(line: &str) -> Option<Self> {
        let (boot, nanos) = line.split_once(' ')?;
        let boot = (boot != NO_BOOT).then(|| boot.into());
        Some(Self { boot, uptime: Duration::from_nanos(nanos.parse().ok()?) })
    }
}

impl Now {
    /// Returns true if the record may have been written in this boot. S3: doubt counts as true, which only costs
    /// time.
    pub(crate) fn is_in_boot_of(&self, written: &Written) -> bool {
        match (&written.boot, &self.boot) {
            (Some(then), Some(now)) => then == now,
            _ => written.uptime <= self.uptime,
        }
    }

    /// Returns the time for the value of a lock.
    pub(crate) fn reading(&self) -> ClockReading {
        let wall = Duration::from_micros(self.wall_micros);
        ClockReading { now: self.uptime, error: Duration::ZERO, wall }
    }

    /// Returns the uptime as in notifications, in whole microseconds.
    pub(crate) fn server_time(&self) -> ServerTime {
        ServerTime(Duration::from_micros(self.uptime.as_micros() as u64))
    }
}

fn wall_time() -> Duration {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH);
    wall.unwrap_or_default()
}
