//! What is shown while we wait for the lock.

use std::time::{Duration, Instant, SystemTime};

use indicatif::{ProgressBar, ProgressStyle};
use leasehold::Contention;

use crate::terminal;

/// How often the line moves.
const TICK: Duration = Duration::from_millis(100);

/// A line on a terminal that tells who has the lock, how many are before us, and since when we
/// wait; elsewhere nothing but, with `-v`, one event. It goes away when it is dropped.
pub(super) struct Waiting {
    line: Option<ProgressBar>,
    name: String,
}

impl Waiting {
    pub(super) fn new(name: &str) -> Self {
        // Drawn once there is something to wait for.
        let line = terminal::stderr_is_terminal().then(ProgressBar::new_spinner);
        Self { line, name: name.to_owned() }
    }

    /// What to do with each answer that the lock is busy.
    pub(super) fn listener(&self) -> impl Fn(&Contention) + Send + Sync + 'static {
        let (line, name) = (self.line.clone(), self.name.clone());
        let (since, asked) = (clock_time(), Instant::now());
        let started = std::sync::Once::new();
        move |seen| {
            started.call_once(|| {
                tracing::info!(lock = name, %seen, "waiting");
                line.iter().for_each(start);
            });
            if let Some(line) = &line {
                line.set_elapsed(asked.elapsed());
                line.set_prefix(format!("waiting for {name} since {since}"));
                line.set_message(situation(seen));
            }
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.line.iter().for_each(ProgressBar::finish_and_clear);
    }
}

fn start(line: &ProgressBar) {
    let style = ProgressStyle::with_template("{spinner:.cyan} {prefix} ({elapsed}): {wide_msg}");
    // The template is ours and is right; the default one would do too.
    line.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    line.enable_steady_tick(TICK);
}

/// `held by web-3:4711, 2 before us`.
fn situation(seen: &Contention) -> String {
    let holder = seen.holder.as_ref().map(|label| label.as_str()).filter(|label| !label.is_empty());
    let holder = holder.map_or_else(|| "held".to_owned(), |label| format!("held by {label}"));
    match seen.position {
        None => holder,
        Some(0) => format!("{holder}, we are next"),
        Some(ahead) => format!("{holder}, {ahead} before us"),
    }
}

/// The time of day, such as `14:03:22Z`.
fn clock_time() -> String {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    now.split_once('T').map_or(now.clone(), |(_, time)| time.to_owned())
}
