//! Signals: to stop a process, to let it go on, and to end the show.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Set by a request to end the show.
static IS_REQUESTED: AtomicBool = AtomicBool::new(false);

/// Takes Ctrl-C and SIGTERM as requests to end the show, which then removes its processes and files.
pub(crate) fn hear_requests() -> io::Result<()> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build()?;
    thread::spawn(move || {
        runtime.block_on(request());
        IS_REQUESTED.store(true, Ordering::Relaxed);
    });
    Ok(())
}

/// Returns true once the show is to end.
pub(crate) fn is_requested() -> bool {
    IS_REQUESTED.load(Ordering::Relaxed)
}

#[cfg(unix)]
async fn request() {
    use tokio::signal::unix::{SignalKind, signal};
    // Without a handler the system ends the process, as it does by default.
    let Ok(mut terminate) = signal(SignalKind::terminate()) else { return };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}

#[cfg(not(unix))]
async fn request() {
    drop(tokio::signal::ctrl_c().await);
}

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
