//! The clock of all events.

use rustix::time::{ClockId, clock_gettime};

/// A clock that the processes of a machine share. On Linux it includes the time of a suspend.
#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::Monotonic;

pub(super) const MILLI: u64 = 1_000_000;
pub(super) const SECOND: u64 = 1000 * MILLI;

/// Returns the time in nanoseconds.
pub(super) fn now() -> u64 {
    let time = clock_gettime(CLOCK);
    time.tv_sec as u64 * SECOND + time.tv_nsec as u64
}
