//! Progress of a wait, for the server and for the lock: a moving line on a terminal, and some lines in a log.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use leasehold::{Contention, LockName};
use rustix::termios::tcgetwinsize;
use tokio::time::sleep;

use crate::{stderr, terminal};

/// Interval at which the line is redrawn.
const TICK: Duration = Duration::from_millis(100);

const SPINNER: [char; 4] = ['|', '/', '-', '\\'];

/// Time of a wait before the first line of a log.
const FIRST_LINE: Duration = Duration::from_secs(10);

/// Interval of the lines of a log.
const INTERVAL: Duration = Duration::from_secs(60);

/// Time of a wait after which a line comes once an hour.
const LONG: Duration = Duration::from_secs(600);

/// Time without an answer after which the server counts as silent. A waiter looks at the lock once a second.
const SILENCE: Duration = Duration::from_secs(3);

/// Time of a connection before a line tells of it.
const CONNECTS: Duration = Duration::from_secs(1);

/// Report of a wait: its subject, its length, and the present state of the others. On a terminal it is one line, which
/// goes away when this is dropped. Otherwise it is a line after ten seconds, then one a minute, and after ten minutes one
/// an hour. With `-v`, an event tells of the start of a wait for a lock.
pub(crate) struct Waiting {
    quiet: bool,
    since: Instant,
    situation: Arc<Mutex<Situation>>,
}

/// Subject of the wait.
#[derive(Clone)]
enum Situation {
    /// The lock, which has not been busy yet.
    Unknown,
    /// The server, by its name for people.
    Connecting(String),
    /// A busy lock, as the server showed it at this time.
    Busy(LockName, String, Instant),
}

impl Waiting {
    /// Returns the report of a wait for locks.
    pub(crate) fn for_turn(quiet: bool) -> Self {
        Self::of(quiet, Situation::Unknown)
    }

    /// Returns the report of a wait for the server.
    pub(crate) fn for_server(quiet: bool, shown: String) -> Self {
        Self::of(quiet, Situation::Connecting(shown))
    }

    fn of(quiet: bool, situation: Situation) -> Self {
        Self { quiet, since: Instant::now(), situation: Arc::new(Mutex::new(situation)) }
    }

    /// Returns the listener for each answer that a lock is busy.
    pub(crate) fn listener(&self) -> impl Fn(&LockName, &Contention) + Send + Sync + 'static {
        let situation = self.situation.clone();
        move |name, seen| {
            let mut situation = situation.lock().unwrap_or_else(PoisonError::into_inner);
            if !matches!(&*situation, Situation::Busy(last, ..) if last == name) {
                tracing::info!(lock = %name, %seen, "waiting");
            }
            *situation = Situation::Busy(name.clone(), described(seen), Instant::now());
        }
    }

    /// Reports the wait until this future is dropped.
    pub(crate) async fn draw(&self) -> Infallible {
        match (self.quiet, terminal::stderr_is_terminal()) {
            (true, _) => pending().await,
            (false, true) => self.redraw().await,
            (false, false) => self.log().await,
        }
    }

    async fn redraw(&self) -> Infallible {
        let mut line = Line { is_shown: false };
        for spinner in SPINNER.into_iter().cycle() {
            if let Some(lines) = self.lines(Instant::now()) {
                line.show(spinner, &lines);
            }
            sleep(TICK).await;
        }
        pending().await
    }

    async fn log(&self) -> Infallible {
        let mut pause = FIRST_LINE;
        loop {
            sleep(pause).await;
            if let Some([line, _]) = self.lines(Instant::now()) {
                terminal::warning(&line);
            }
            pause = if self.since.elapsed() < LONG { INTERVAL } else { 60 * INTERVAL };
        }
    }

    /// Returns the line, and a shorter one; `None` if there is nothing to tell.
    fn lines(&self, now: Instant) -> Option<[String; 2]> {
        let since = |start: Instant| {
            let span = Duration::from_secs(now.saturating_duration_since(start).as_secs());
            humantime::format_duration(span).to_string()
        };
        let waited = since(self.since);
        match &*self.situation.lock().unwrap_or_else(PoisonError::into_inner) {
            Situation::Unknown => None,
            Situation::Connecting(_) if now.saturating_duration_since(self.since) < CONNECTS => {
                None
            }
            Situation::Connecting(server) => {
                let line = format!("waiting {waited} for the server at {server}");
                Some([line.clone(), line])
            }
            Situation::Busy(name, seen, at) => {
                let state = match now.saturating_duration_since(*at) {
                    silent if silent >= SILENCE => {
                        format!("no answer from the server for {}", since(*at))
                    }
                    _ => seen.clone(),
                };
                let line = format!("waiting {waited} for \"{name}\": {state}");
                Some([line, format!("waiting {waited}: {state}")])
            }
        }
    }
}

/// The line of a terminal. It is removed when this is dropped.
struct Line {
    is_shown: bool,
}

impl Line {
    /// Replaces the present line, by the shorter one if the terminal is narrow.
    fn show(&mut self, spinner: char, [line, short]: &[String; 2]) {
        let columns = tcgetwinsize(io::stderr()).map_or(80, |size| usize::from(size.ws_col));
        let fits = line.chars().count() + 3 <= columns;
        let line = format!("{spinner} {}", if fits { line } else { short });
        write(&line.chars().take(columns.saturating_sub(1)).collect::<String>());
        self.is_shown = true;
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if self.is_shown {
            write("");
        }
    }
}

/// Writes a line over the present one. The cursor stays at its start, so that the terminal's own `^C` is in this line,
/// and not in the next.
fn write(line: &str) {
    stderr::write(format!("\r{line}\u{1b}[K\r").into_bytes());
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

#[cfg(test)]
mod tests {
    use super::*;

    /// C14: only an answer shows the holder and the queue.
    #[test]
    fn c14_a_line_tells_what_is_known_now() {
        let waiting = Waiting::for_turn(false);
        let line = |seconds: u64| {
            let now = waiting.since + Duration::from_secs(seconds) + Duration::from_millis(500);
            waiting.lines(now).map(|[line, _]| line)
        };
        assert_eq!(line(5), None);
        let name = LockName::new("a").expect("a name");
        let mut seen = Contention::unknown();
        seen.position = Some(0);
        waiting.listener()(&name, &seen);
        assert_eq!(line(2).as_deref(), Some("waiting 2s for \"a\": held, we are next"));
        let silent = "waiting 9s for \"a\": no answer from the server for 9s";
        assert_eq!(line(9).as_deref(), Some(silent));
    }

    #[test]
    fn a_server_that_is_away_at_the_start_is_told_after_a_second() {
        let waiting = Waiting::for_server(false, "redis://h".to_owned());
        assert!(waiting.lines(waiting.since).is_none());
        let [line, _] = waiting.lines(waiting.since + Duration::from_secs(4)).expect("a line");
        assert_eq!(line, "waiting 4s for the server at redis://h");
    }
}
