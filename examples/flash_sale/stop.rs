//! Signals: to stop a process, to continue it, and to end the show.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// True after a request to end the show.
static IS_REQUESTED: AtomicBool = AtomicBool::new(false);

/// Treats Ctrl-C and SIGTERM as requests to end the show, which then removes its processes and files.
pub(crate) fn hear_requests() -> io::Result<()> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build()?;
    thread::spawn(move || {
        runtime.block_on(request());
        IS_REQUESTED.store(true, Ordering::Relaxed);
    });
    Ok(())
}

/// Returns true after a request to end the show.
pub(crate) fn is_requested() -> bool {
    IS_REQUESTED.load(Ordering::Relaxed)
}

async fn request() {
    use tokio::signal::unix::{SignalKind, signal};
    // Without a handler the system ends the process, which is the default.
    let Ok(mut terminate) = signal(SignalKind::terminate()) else { return };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}

/// Stops a process at its present instruction, without a warning, as an overloaded machine or a debugger would.
pub(crate) fn stop(pid: u32) -> io::Result<()> {
    signal(pid, rustix::process::Signal::STOP)
}

/// Continues a stopped process.
pub(crate) fn let_go_on(pid: u32) -> io::Result<()> {
    signal(pid, rustix::process::Signal::CONT)
}

fn signal(pid: u32, signal: rustix::process::Signal) -> io::Result<()> {
    let pid = i32::try_from(pid).map_err(io::Error::other)?;
    let pid = rustix::process::Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(rustix::process::kill_process(pid, signal)?)
}

/// Makes the system end this process when its parent ends. A stopped worker cannot see the end of its standard
/// input, and would stay for ever.
#[cfg(target_os = "linux")]
pub(crate) fn die_with_parent() -> io::Result<()> {
    let kill = Some(rustix::process::Signal::KILL);
    Ok(rustix::process::set_parent_process_death_signal(kill)?)
}

/// Elsewhere a running worker sees the end of its standard input.
#[cfg(not(target_os = "linux"))]
pub(crate) fn die_with_parent() -> io::Result<()> {
    Ok(())
}
