//! Network use of all processes of the machine, or of a network namespace.

use crate::client::Result;

/// Returns the number of bytes on the loopback so far.
pub(crate) fn by_loopback() -> Result<u64> {
    let devices = std::fs::read_to_string("/proc/net/dev")?;
    let received = devices.lines().find_map(|line| line.trim_start().strip_prefix("lo:"));
    let bytes = received.and_then(|line| line.split_whitespace().next());
    Ok(bytes.ok_or("a machine has a loopback device")?.parse()?)
}
