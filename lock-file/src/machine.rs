//! The machine's time: the clock by which holds end, and the boot that the clock counts from.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lock_core::LockError;
use lock_core::backend::ServerTime;

use crate::platform;

/// Where the time is read. Tests put another boot and other clocks here.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub(crate) boot: Arc<str>,
    pub(crate) uptime: fn() -> Duration,
    pub(crate) wall: fn() -> Duration,
}

/// One reading of all clocks.
#[derive(Clone, Debug)]
pub(crate) struct Now {
    /// The boot that `uptime` counts from.
    pub(crate) boot: Arc<str>,
    /// The time since the boot, suspend included.
    pub(crate) uptime: Duration,
    /// The wall clock in microseconds. It feeds tokens, and decides nothing.
    pub(crate) wall_micros: u64,
}

impl Machine {
    /// The machine we run on.
    pub(crate) fn this() -> Result<Self, LockError> {
        let boot = platform::boot_id().map_err(|error| LockError::Config {
            message: format!(
                "locks in files need the boot id and boot clock of Linux: {error}; \
                 choose another backend here"
            ),
        })?;
        Ok(Self { boot: boot.into(), uptime: platform::uptime, wall: wall_time })
    }

    pub(crate) fn now(&self) -> Now {
        Now {
            boot: self.boot.clone(),
            uptime: (self.uptime)(),
            wall_micros: (self.wall)().as_micros() as u64,
        }
    }
}

impl Now {
    /// When a hold begins that is granted now, on the wall clock.
    pub(crate) fn since(&self) -> Option<SystemTime> {
        time_of_micros(self.wall_micros)
    }

    /// The uptime as notifications tell it, in whole microseconds.
    pub(crate) fn server_time(&self) -> ServerTime {
        ServerTime(Duration::from_micros(self.uptime.as_micros() as u64))
    }
}

/// A point in time as files tell it: µs since 1970, or 0 if it is not known.
pub(crate) fn time_of_micros(micros: u64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_micros(micros)).filter(|_| micros > 0)
}

/// Writes what [`time_of_micros`] reads.
pub(crate) fn micros_since_1970(time: Option<SystemTime>) -> u64 {
    let since = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    since.as_micros() as u64
}

fn wall_time() -> Duration {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH);
    wall.unwrap_or_default()
}
