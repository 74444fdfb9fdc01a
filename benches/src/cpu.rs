//! CPU time and memory of processes.

use std::time::Duration;

use rustix::param::clock_ticks_per_second;
use rustix::time::{ClockId, clock_gettime};

use crate::client::Result;

/// Returns the CPU time of this process so far, which is that of the clients: servers are other processes.
pub(crate) fn own() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Returns the CPU time of another process so far, to about 10 ms.
pub(crate) fn of(pid: u32) -> Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The second field is the program's name in brackets, which may contain any characters. User and system time
    // are the fields 14 and 15.
    let (_, rest) = stat.rsplit_once(')').ok_or("a process has a name")?;
    let ticks = rest.split_whitespace().skip(11).take(2).map(str::parse::<u64>);
    let ticks = ticks.sum::<std::result::Result<u64, _>>()?;
    Ok(Duration::from_secs_f64(ticks as f64 / clock_ticks_per_second() as f64))
}

/// Returns the resident memory of this process, in bytes.
pub(crate) fn resident() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()).ok_or("a process has memory")?;
    Ok(kib.parse::<u64>()? * 1024)
}
