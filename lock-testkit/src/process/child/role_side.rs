//! The child's side: functions for its role.

use std::env;
use std::io::{BufRead, Write};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use tokio::runtime;
use tokio::sync::{Mutex, mpsc};

use super::{MARK, ROLE};

/// Unread lines of the parent.
static TOLD: OnceLock<Mutex<mpsc::UnboundedReceiver<String>>> = OnceLock::new();

/// Plays the role of this process, on a runtime with two threads; does nothing in a process that was not started by
/// [`spawn`](super::spawn).
///
/// The process ends when its parent does.
pub fn run(play: impl AsyncFnOnce(String)) {
    let Ok(role) = env::var(ROLE) else { return };
    listen();
    let runtime = runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime can be had");
    runtime.block_on(play(role));
    // A role may have left a blocked thread; the process still ends.
    runtime.shutdown_timeout(Duration::from_secs(1));
}

/// Says a line to the parent.
pub fn say(line: &str) {
    let mut output = std::io::stdout().lock();
    // The test harness may have left a line unfinished.
    write!(output, "\n{MARK}{line}\n").expect("the parent listens");
    output.flush().expect("the parent listens");
}

/// Returns the next line of the parent.
///
/// # Cancel safety
/// If the future is dropped no line is lost.
///
/// # Panics
/// In a process that plays no role.
pub async fn hear() -> String {
    let told = TOLD.get().expect("only a child hears");
    let line = told.lock().await.recv().await;
    line.expect("the process ends with the parent's lines")
}

/// Reads the parent's lines in a thread, which ends the process when the parent has ended.
fn listen() {
    let (tell, told) = mpsc::unbounded_channel();
    TOLD.set(Mutex::new(told)).expect("a process plays one role");
    thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let _ = tell.send(line);
        }
        std::process::exit(0);
    });
}
