//! What the system does to processes: it stops them, and lets them go on.

use std::io;

/// Stops a process where it stands, as an overloaded machine or a debugger would. It is not told.
#[cfg(unix)]
pub(crate) fn stop(pid: u32) -> io::Result<()> {
    signal(pid, rustix::process::Signal::STOP)
}

/// Lets a stopped process go on with its next instruction.
#[cfg(unix)]
pub(crate) fn let_go_on(pid: u32) -> io::Result<()> {
    signal(pid, rustix::process::Signal::CONT)
}

#[cfg(unix)]
fn signal(pid: u32, signal: rustix::process::Signal) -> io::Result<()> {
    let pid = i32::try_from(pid).map_err(io::Error::other)?;
    let pid = rustix::process::Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(rustix::process::kill_process(pid, signal)?)
}

/// Has the system end this process when its parent ends. A stopped worker cannot see its standard
/// input close, and would stay for ever.
#[cfg(target_os = "linux")]
pub(crate) fn die_with_parent() -> io::Result<()> {
    let kill = Some(rustix::process::Signal::KILL);
    Ok(rustix::process::set_parent_process_death_signal(kill)?)
}

/// Elsewhere a running worker sees its standard input close.
#[cfg(not(target_os = "linux"))]
pub(crate) fn die_with_parent() -> io::Result<()> {
    Ok(())
}

/// There is no such thing as a stopped process elsewhere.
#[cfg(not(unix))]
pub(crate) fn stop(_pid: u32) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// There is no such thing as a stopped process elsewhere.
#[cfg(not(unix))]
pub(crate) fn let_go_on(_pid: u32) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
