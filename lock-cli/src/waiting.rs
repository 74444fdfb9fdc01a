//! Progress line during the wait for the lock.

use std::convert::Infallible;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use leasehold::{Contention, LockName};
use rustix::termios::tcgetwinsize;
use tokio::time::sleep;

use crate::terminal;

/// Interval at which the line is redrawn.
const TICK: Duration = Duration::from_millis(100);

const SPINNER: [char; 4] = ['|', '/', '-', '\\'];

/// A line on a terminal that tells for which lock we wait, who has it, how many wait before us, and since
/// when we wait.
/// The line goes away when this is dropped. If stderr is no terminal, nothing is shown but, with `-v`,
/// one event.
pub(crate) struct Waiting {
    shown: bool,
    situation: Arc<Mutex<Situation>>,
}

/// The lock of the wait, and the state of the others; `None` until the wait begins.
type Situation = Option<(LockName, String)>;

impl Waiting {
    pub(crate) fn new(quiet: bool) -> Self {
        let shown = !quiet && terminal::stderr_is_terminal();
        Self { shown, situation: Arc::default() }
    }

    /// Returns the listener for each answer that a lock is busy.
    pub(crate) fn listener(&self) -> impl Fn(&LockName, &Contention) + Send + Sync + 'static {
        let situation = self.situation.clone();
        move |name, seen| {
            let mut situation = situation.lock().unwrap_or_else(PoisonError::into_inner);
            if situation.as_ref().is_none_or(|(last, _)| last != name) {
                tracing::info!(lock = %name, %seen, "waiting");
            }
            *situation = Some((name.clone(), described(seen)));
        }
    }

    /// Draws the line until it is dropped.
    pub(crate) async fn draw(&self) -> Infallible {
        let (since, asked) = (clock_time(), Instant::now());
        for spinner in SPINNER.into_iter().cycle().take_while(|_| self.shown) {
            if let Some((name, situation)) = self.situation() {
                let waited = Duration::from_secs(asked.elapsed().as_secs());
                let waited = humantime::format_duration(waited);
                show(&format!(
                    "{spinner} waiting for \"{name}\" since {since} ({waited}): {situation}"
                ));
            }
            sleep(TICK).await;
        }
        std::future::pending().await
    }

    fn situation(&self) -> Situation {
        self.situation.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.shown && self.situation().is_some() {
            show("");
        }
    }
}

/// Replaces the present line. The cursor stays at its start, so that the terminal's own `^C` is in this line, and not
/// in the next.
fn show(line: &str) {
    let mut stderr = io::stderr();
    let columns = tcgetwinsize(&stderr).map_or(80, |size| usize::from(size.ws_col));
    let line: String = line.chars().take(columns.saturating_sub(1)).collect();
    let _ = write!(stderr, "\r{line}\u{1b}[K\r").and_then(|()| stderr.flush());
}

/// Returns `held by "web-3:4711", 2 before us`.
fn described(seen: &Contention) -> String {
    let holder = seen.holder.as_ref().filter(|label| !label.as_str().is_empty());
    let holder = match holder {
        // C49: it may stay for ever.
        _ if seen.foreign_without_ttl => "held by a key without a TTL that is not ours".to_owned(),
        Some(label) => format!("held by \"{label}\""),
        None => "held".to_owned(),
    };
    match seen.position {
        None => holder,
        Some(0) => format!("{holder}, we are next"),
        Some(ahead) => format!("{holder}, {ahead} before us"),
    }
}

/// Returns the time of day, such as `14:03:22Z`.
fn clock_time() -> String {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    now.split_once('T').map_or(now.clone(), |(_, time)| time.to_owned())
}
